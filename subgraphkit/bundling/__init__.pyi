from .collecting import BundleContents as BundleContents
from .collecting import collect as collect
from .opening import open_bundle as open_bundle
from .reading import BundleFiles as BundleFiles
from .reading import is_bundle as is_bundle
from .writing import check_target as check_target
from .writing import write_bundle as write_bundle
