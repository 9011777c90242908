"""Tables of operators in the forms that libraries get wrong or fuse: a line for each form.

A line is a node, or several with ``;`` between them, in onnx's text form. An argument has its shape
behind it, and between name and shape what it is: ``!`` a constant, ``+`` positive, ``~`` between -1
and 1, ``*`` up to 200, ``#`` up to 2 to the 40th, ``^`` about 3000, ``:int64`` of another type than
the line's; ``={...}`` states its values. ``N`` is the size that is varied, ``C`` the number of
features. Words with ``|`` between them make a line of each. A line goes on in the next where it
does not end in a bracket. Behind ``==`` is what it means in other operators, for what
``onnx.reference`` does not compute as ONNX has it.

The key above some lines says how strictly their results are judged, see ``comparison``, and names
their element types, and the operator set if that is a later one than most have. The conformance kit
tries all lines; those of which ``x`` is ``[N]`` or has an axis of ``C`` become probe models, by
which it learns what a backend takes.
"""

from collections.abc import Mapping
from typing import Final

from subgraphkit.testing.layer_tables import LAYERS

_SOME: Final = "float double float16 int32 int64 uint8 uint32 uint64"
_FAR: Final = "{1152921504606846976}"
"""A whole number beside which a fraction of 53 bits has no room for units."""
_WHOLE: Final = "int32 int64 uint32 uint64"
TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "arithmetic": {
        f"ulp {_SOME}": """
            Add|Sub|Mul(x[N], z[N])
            Div(x[N], z+[N])""",
        "bits int32 uint32 int64 uint8": "Mul(x[N], x)",
        "ulp float int64": """
            Sub(z[3,N], x[N])
            Sub(x[N], z[2,1,N])
            Div(x[], z+[N])
            Div(x[3,1], z+![N])
            Add(x[N], x)
            Sub(x[2,N,1], z[N,3])
            Sub(z![1], x[N])
            Mul(x[3,N], z![3,1])""",
        "ulp float double": """
            Sqrt|Reciprocal(x+[N])
            Mul(x[N], x)""",
        "near float": "a = Add(x[N], x); b = Relu(a); y = Mul(b, x)",
        "equal uint32 uint64": """
            Max|Min(x[N], z[N])
            Where(c:bool[N], x[N], z[N])""",
        "equal float double float16 int32 int64": """
            Max|Min(x[N], z[N])
            Min(x[3,N], z![1], v[N])
            Relu(x[N])
            Where(c:bool[N], x[N], z[N])
            Where(c:bool[3,1], x[], z[N])
            Clip(x[N], low![]={-1}, high![]={1})""",
        "equal float double float16 int32 int64 @13": "Clip(x[N], low![]={2}, high![]={-1})",
        "bits float double float16 int32 int64": "Abs|Neg|Identity|Sign(x[N])",
        "bits float double float16": "Floor|Ceil|Round|IsNaN|IsInf(x[N])",
        "bits uint32 uint64": """
            Equal|Less(x[N], z[N])
            Cast<to=1|7>(x[N])""",
        "bits float double int32 int64 uint8": """
            Equal|Less(x[N], z[N])
            Greater(x[N], z[3,N])
            LessOrEqual(x[N], z[])
            GreaterOrEqual(x[3,N], z![3,1])""",
        "bits bool": """
            And|Xor(x[N], z[N])
            Or(x[N], z[3,N])
            Not(x[N])""",
        "bits int32 int64": """
            Mod(x[N], z+[N])
            Mod<fmod=1>(x[N], z+[N])
            BitwiseAnd|BitwiseXor(x[N], z[N])
            BitwiseOr(x[N], z[3,N])
            BitwiseNot(x[N])""",
        "bits uint8 uint32": """
            BitShift<direction="LEFT">(x[N], z+[N])
            BitShift<direction="RIGHT">(x[N], z+[N])""",
        "bits float": """
            Dropout(x[N])
            Dropout(x[N], r![]={0.4}, t:bool![]={0})
            IsInf<detect_negative=0>(x[N])
            IsInf<detect_positive=0>(x[N])
            Cast<to=2>(x+[N])
            Cast<to=10>(x#[N])
            c = Cast<to=16>(x[N]); y = Cast<to=1>(c)
            Cast<to=7|6|9|10|11>(x[N])
            CastLike(x[N], z:int32[1])""",
        "bits int64": f"""
            Cast<to=1|2|3|6|9|11>(x[N])
            a = Add(x[N], k![]={_FAR}); b = Add(z[N], k); y = Less|Max(a, b)
            a = Add(z[N], k![]={_FAR}); b = Add(v[N], k); y = Sub(a, b)""",
        "bits uint8 int8 bool": "Cast<to=1|7>(x[N])",
        "bits double": "Cast<to=1>(x[N])",
        "bits float double": """
            Cast<to=7>(x#[N])
            c = Cast<to=7>(x#[N]); y = Mul(c, k:int64![]={3})""",
        "bits int64 uint64": "Cast<to=11>(x[N])",
        "bits float16": "Cast<to=1>(x[N])",
        "bits int32 int64 double": "Pow(x[N], e![1]={1})",
        "near float double": """
            Mod<fmod=1>(x[N], z+[N])
            Pow(x+[N], z[N])
            Pow(x[N], e:int64![]={2})
            Pow(z![1]={2.5}, x[3,N])
            Mean(x[2,N], z[N], v[N])
            Sum(x[2,N], z[N], v[2,N])""",
    },
    "curves": {
        "near float float16": """
            Sigmoid|Tanh|Exp|Erf|Softplus(x[N])
            Elu<alpha=0.7>(x[N])""",
        "near float": """
            OneHot(i:int64[N], d:int64![]={4}, v![2])
            OneHot<axis=0>(i:int64[N,2], d:int64![]={5}, v![2])
            Log(x+[N])
            Elu|Selu|Celu|Softsign|Mish|Gelu|HardSigmoid|HardSwish|LeakyRelu|ThresholdedRelu|Shrink|
                Sin|Cos|Atan|Sinh|Cosh|Asinh(x[N])
            Celu<alpha=0.6>(x[N])
            Gelu<approximate="tanh">(x[N])
            HardSigmoid<alpha=0.3, beta=0.4>(x[N])
            LeakyRelu|ThresholdedRelu<alpha=0.3>(x[N])
            Selu<alpha=1.5, gamma=0.9>(x[N])
            Shrink<lambd=0.4, bias=0.1>(x[N])
            PRelu(x[N], z[N])
            PRelu(x[2,3,N], s![3,1])
            PRelu(x[1,2,N,2], s![2])
            PRelu(x[N,1,2,2], s![2])
            Sigmoid|Tanh|Erf|Softplus|Elu|Selu|Celu|Gelu|Mish|Softsign|HardSwish(x*[N])
            Gelu<approximate="tanh">(x*[N])
            Tan|Asin|Acos|Atanh(x~[N])
            a = Add(x+[N], b![]={1}); y = Acosh(a)
            s = Sigmoid(x[N]); y = Mul(x, s)
            a = Relu(x[N]); b = Sigmoid(a); y = Tanh(b)
            a = Abs(x[N]); b = Add(a, o![]={1}); y = Sqrt|Log|Reciprocal(b)
            a = Mul(x[3,N], g![N]); b = Add(a, h![N]); y = Relu(b)
            a = Sub(x[3,N], g![N]); b = Div(a, h+![N]); y = Tanh(b)""",
    },
    "movement": {
        "bits int32 uint32 uint64 double": """
            Transpose(x[3,N])
            Concat<axis=0>(x[N], z[N], x)
            Gather<axis=-1>(x[3,N], i:int64![3]={0,-1,0})""",
        "bits float int64 uint8 float16 bool": """
            Transpose(x[3,N])
            Transpose<perm=[0,2,1]>(x[2,N,3])
            Concat<axis=0>(x[N], z[N], x)
            Concat<axis=-1>(x[2,N], z[2,3])
            Slice(x[N], a:int64![1]={1}, b:int64![1]={9223372036854775807})
            Slice(x[3,N], a:int64![1]={-1}, b:int64![1]={-9223372036854775807}, d:int64![1]={-1},
                  s:int64![1]={-2})
            Gather<axis=-1>(x[3,N], i:int64![3]={0,-1,0})
            Reshape(x[2,N,3], s:int64![2]={0,-1})
            Expand(x[1,N], s:int64![3]={2,3,1})
            Pad<mode="constant">(x[2,N], p:int64![4]={0,1,1,2})
            Pad(x[3,N], p:int64![4]={0,0,0,-2}) ==
                Slice(x[3,N], a:int64![1]={0}, b:int64![1]={-2}, d:int64![1]={1})
            Pad(x[3,N], p:int64![4]={1,-1,-2,2}) ==
                s = Slice(x[3,N], a:int64![2]={0,1}, b:int64![2]={1,9999});
                y = Pad(s, q:int64![4]={1,0,0,2})""",
        "bits float": """
            Transpose<perm=[1,0,2]>(x[N,3,2])
            Transpose<perm=[2,0,1]>(x[2,N,3])
            Transpose<perm=[0,3,1,2]>(x[2,3,N,2])
            Transpose<perm=[0,2,3,1]>(x[2,3,N,2])
            Transpose(x[N,N])
            Concat<axis=1>(x[2,N], z[2,N])
            Slice(x[3,N], a:int64![2]={0,0}, b:int64![2]={3,-1}, d:int64![2]={0,1},
                  s:int64![2]={2,3})
            Slice(x[3,N], a:int64![1]={-3}, b:int64![1]={1000000}, d:int64![1]={1})
            Gather(x[N,2], i:int64![2,2]={0,-1,-1,0})
            Gather<axis=1>(x[2,N], i:int32![]={0})
            GatherElements<axis=0>(x[8,N], i+:int64[2,N])
            GatherND(x[3,N], i:int64![2,1]={2,0})
            GatherND<batch_dims=1>(x[2,N], i:int64![2,1]={0,-1})
            ScatterElements<axis=1>(x[2,N], i:int64![2,1]={0,-1}, z[2,1])
            ScatterND(x[3,N], i:int64![1,1]={1}, z[1,N])
            Reshape(x[N,6], s:int64![3]={-1,2,3})
            Flatten<axis=-1>(x[2,N,3])
            Flatten(x[2,N,3])
            Squeeze(x[1,N,1], a:int64![1]={-1})
            Unsqueeze(x[N,2], a:int64![2]={-1,1})
            Expand(x[N], s:int64![2]={3,1})
            Pad<mode="edge">(x[2,N], p:int64![4]={0,2,1,1})
            Pad<mode="reflect">(x[N,3], p:int64![4]={0,2,0,1})
            Pad(x[2,N], p:int64![4]={1,0,0,3}, v![]={2.5})
            Tile(x[2,N], r:int64![2]={2,3})
            DepthToSpace<blocksize=2>(x[1,8,N,3])
            DepthToSpace<blocksize=2, mode="CRD">(x[1,8,N,3])
            a = Concat<axis=2>(x[1,2,N,6], x); y = SpaceToDepth<blocksize=2>(a)
            Shape|Size(x[N,C])
            Shape<start=1>(x[N,C])
            CenterCropPad<axes=[1]>(x[N,C], s:int64![1]={5})
            CenterCropPad<axes=[0,-1]>(x[3,N,C], s:int64![2]={5,7})
            Trilu(x[N,5])
            Trilu(x[N,5], k:int64![]={-1})
            Trilu<upper=0>(x[5,N], k:int64![]={1})
            GatherElements<axis=1>(x[N,8], i+:int64[N,2])
            Shape<end=-1>(x[N,C])
            Compress(x[3,N], c:bool![5]={1,0,1,1,0})
            EyeLike<dtype=7>(x[N,4])
            EyeLike<k=1>(x[N,4])
            ReverseSequence<batch_axis=0, time_axis=1>(x[2,N], l:int64![2]={1,1})
            NonZero(x[3,N])
            c = Cast<to=10>(x[3,N]); y = Cast<to=1>(c)
            c = Cast<to=7>(x[3,N]); y = NonZero(c)
            c = Cast<to=6>(x[3,N]); d = Cast<to=9>(c); y = NonZero(d)
            Compress<axis=0>(x[3,N], c:bool![3]={0,0,0})
            Compress(x[3,N], c:bool![4]={0,0,0,0})
            Gather<axis=1>(x[3,N], i:int64![0])
            Slice(x[3,N], a:int64![1]={2}, b:int64![1]={1}, d:int64![1]={1})
            Concat<axis=1>(x[3,N], z![3,0])
            Expand(x[1,N], s:int64![3]={0,1,1})
            Pad(x[N,0], p:int64![4]={0,1,0,1})
            Pad<mode="wrap">(x[2,N], p:int64![4]={0,2,0,1})
            ScatterElements<axis=1>(x[2,N], i:int64![2,0], z[2,0])
            ScatterND(x[3,N], i:int64![0,1], z[0,N])
            ScatterElements<axis=1, reduction="add">(x[2,N], i:int64![2,2]={0,0,1,1}, z[2,2])
            ScatterElements<axis=0, reduction="max">(x[3,N], i:int64![2,1]={2,2}, z[2,1])
            ScatterND<reduction="mul">(x[3,N], i:int64![2,1]={1,1}, z[2,N])
            Tile(x[3,N], r:int64![2]={0,1})
            y, r = Split<axis=1>(x[N,4], s:int64![2]={0,4})
            Reshape<allowzero=1>(x[3,0], s:int64![2]={0,5})
            Pad(x[2,N], p:int64![2]={-1,1}, "", d:int64![1]={1}) ==
                s = Slice(x[2,N], a:int64![1]={1}, b:int64![1]={9999},
                    d:int64![1]={1});
                y = Pad(s, q:int64![4]={0,0,0,1})
            Pad<mode="edge">(x[N,5], p:int64![4]={0,-2,0,1}) ==
                s = Slice(x[N,5], a:int64![1]={2}, b:int64![1]={9999}, d:int64![1]={1});
                y = Pad<mode="edge">(s, q:int64![4]={0,0,0,1})
            Compress<axis=1>(x[3,N], c:bool[N])
            y, r = Split<axis=1, num_outputs=2>(x[3,N])
            c = Concat<axis=0>(x[N,C], x); y, r = Split<axis=0, num_outputs=2>(c)
            a, b = Split<axis=1, num_outputs=2>(x[N,C]); y = Concat<axis=1>(b, a)
            r, y = Split<axis=-1>(x[N,5], s:int64![2]={2,3})
            t = Transpose(x[3,N]); y = Reshape(t, s:int64![2]={3,-1})
            t = Transpose<perm=[1,0]>(x[N,C]); y = Transpose<perm=[1,0]>(t)
            u = Unsqueeze(x[N,C], a:int64![1]={1}); y = Squeeze(u, a)
            d = DepthToSpace<blocksize=2>(x[N,C,6,6]); y = SpaceToDepth<blocksize=2>(d)
            Reshape(x[N,C], s:int64![2]={-1,C})
            Flatten(x[N,C])
            Expand(x[N,C], s:int64![2]={1,C})
            Slice(x[N,C], a:int64![1]={-1}, b:int64![1]={-1000}, d:int64![1]={1}, s:int64![1]={-1})
            Gather<axis=1>(x[N,C], i:int64![4]={3,0,-1,1})
            Pad(x[N,C], p:int64![4]={0,1,0,0})
            Tile(x[N,C], r:int64![2]={1,2})""",
    },
    "reductions": {
        "equal float int32": """
            Unique(x[N])
            y, f, i, c = Unique<axis=1>(x[3,N])""",
        "bits float int64": "u, f, i = Unique<sorted=0>(x[N]); y = Gather(u, i)",
        "near float float16": """
            ReduceSum(x[3,N], a:int64![1]={1})
            ReduceMean<keepdims=0>(x[3,N], a:int64![1]={-1})""",
        "near float": """
            ReduceSum<keepdims=0>(x[N,3], a:int64![1]={0})
            ReduceSum<keepdims=0>(x[2,N,3], a:int64![2]={0,2})
            ReduceSum(x[2,N])
            ReduceMean(x[N,3], a:int64![1]={0})
            ReduceMean<keepdims=0>(x[2,N,2,2], a:int64![2]={-1,-2})
            ReduceProd<keepdims=0>(x~[N,3], a:int64![1]={1})
            ReduceL1|ReduceSumSquare(x[3,N], a:int64![1]={1})
            ReduceL2|ReduceLogSumExp<keepdims=0>(x[3,N], a:int64![1]={1})
            ReduceLogSum(x+[3,N], a:int64![1]={1})
            CumSum(x[3,N], a:int64![]={1})
            CumSum<exclusive=1, reverse=1>(x[3,N], a:int64![]={-1})
            Softmax|LogSoftmax(x[N,C])
            Softmax(x[N,4,C])
            LpNormalization<axis=1>(x[N,C])
            CumSum(x[N,C], a:int64![]={1})
            ReduceSum|ReduceMean|ReduceL2|ReduceProd(x[N,C], a:int64![1]={1})
            Softmax|LogSoftmax|LpNormalization(x[3,N])
            Softmax|LogSoftmax|LpNormalization<axis=0>(x[N,3])
            LpNormalization<p=1>(x[3,N]) ==
                n = ReduceL1(x[3,N], a:int64![1]={1}); y = Div(x, n)
            ReduceL1|ReduceSumSquare<keepdims=0>(x[N,3], a:int64![1]={0})
            ReduceLogSum<keepdims=0>(x+[N,3], a:int64![1]={0})
            CumSum<reverse=1>(x[3,N], a:int64![]={1})
            CumSum<exclusive=1>(x[3,N], a:int64![]={1})
            Softmax<axis=1>(x[2,N,3])
            Softmax|LogSoftmax(x*[3,N])
            Softmax<axis=0>(x*[N,3])
            ReduceLogSumExp(x*[3,N], a:int64![1]={1})
            m = ReduceMean(x^[3,N], a:int64![1]={1}); d = Sub(x, m); y = ReduceSumSquare(d, a)
            ReduceSum<keepdims=0>(x[N,0], a:int64![1]={1})
            ReduceSum(x[0,N], a:int64![1]={0})
            ReduceSum|Softmax(x[N,0])
            ReduceSum(x[3,N], a:int64![0])
            ReduceSum|ReduceL1<noop_with_empty_axes=1>(x[3,N], a:int64![0])
            ReduceLogSumExp|ReduceLogSum|ReduceProd|ReduceL1|ReduceL2|ReduceSumSquare(x[N,0],
                a:int64![1]={1})
            CumSum(x[N,0], a:int64![]={1})
            ReduceSum|ReduceMean|ReduceProd|ReduceL1|ReduceL2|ReduceSumSquare|
                ReduceLogSumExp<noop_with_empty_axes=1>(x[N])
            ReduceLogSum<noop_with_empty_axes=1>(x+[N])""",
        "equal float int64": """
            ReduceMax(x[3,N], a:int64![1]={1})
            ReduceMax<keepdims=0>(x[N,3], a:int64![1]={0})
            ReduceMin<keepdims=0>(x[3,N], a:int64![1]={-1})
            ReduceMin(x[2,N])
            ReduceMax|ReduceMin(x[N,C], a:int64![1]={1})
            ReduceMax|ReduceMin<noop_with_empty_axes=1>(x[N])
            ArgMax<axis=1>(x[N,C])
            y, i = TopK<axis=1>(x[N,C], k:int64![1]={C})
            ArgMax(x[3,N])
            ArgMax<axis=1, keepdims=0>(x[3,N])
            ArgMax<axis=-1, select_last_index=1>(x[3,N])
            ArgMin<axis=-1, keepdims=0, select_last_index=1>(x[3,N])
            ArgMin<axis=1>(x[3,N])
            y, i = TopK(x[3,N], k:int64![1]={1})
            v, y = TopK<axis=0, largest=0>(x[N,3], k:int64![1]={1})""",
        "equal float": """
            Hardmax(x[3,N])
            Hardmax<axis=0>(x[3,N])
            y, i = TopK(x[3,N], k:int64![1]={0})
            ReduceMax|ReduceMin(x[N,0], a:int64![1]={1})""",
        "bits int64": f"""
            a = Add(z[3,N], k![]={_FAR}); y = ArgMax<axis=1>(a)
            a = Add(z[3,N], k![]={_FAR}); y, i = TopK<axis=0, largest=0>(a, m![1]={{1}})
            a = Add(z[3,N], k![]={_FAR}); y = ReduceMin<keepdims=0>(a, d![1]={{1}})
            a = Add(z[N], k![]={_FAR}); y = Unique(a)""",
        "bits int64 int32": "ReduceSum<keepdims=0>(x+[3,N], a:int64![1]={1})",
        f"bits {_WHOLE}": """
            ReduceSum|ReduceMax<keepdims=0>(x[N,4], a:int64![1]={1})
            CumSum(x[N,4], a:int64![]={1})""",
        "near double": """
            ReduceSum<keepdims=0>(x[N,4], a:int64![1]={1})
            CumSum(x[N,4], a:int64![]={1})""",
        "equal double": "ReduceMax<keepdims=0>(x[N,4], a:int64![1]={1})",
    },
    **LAYERS,
}
