"""Tables of operators in the forms that libraries get wrong: a line for each form.

A line is a node, or several with ``;`` between them, in onnx's text form. An argument has its shape
behind it, and between name and shape what it is: ``!`` a constant, ``+`` positive, ``~`` between -1
and 1, ``:int64`` of another type than the line's; ``={...}`` states its values. ``N`` is the size
that is varied. A line goes on in the next where it does not end in a bracket.

The key above some lines says how strictly their results are judged, see ``judging``, and names
their element types.
"""

from collections.abc import Mapping
from typing import Final

__all__ = ["TABLES"]

_SOME: Final = "float double float16 int32 int64 uint8 uint32 uint64"
_WHOLE: Final = "int32 int64 uint32 uint64"
TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "arithmetic": {
        f"ulp {_SOME}": """
            Add(x[N], z[N])
            Sub(x[N], z[N])
            Mul(x[N], z[N])
            Div(x[N], z+[N])""",
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
            Sqrt(x+[N])
            Reciprocal(x+[N])""",
        "equal uint32 uint64": """
            Max(x[N], z[N])
            Min(x[N], z[N])
            Where(c:bool[N], x[N], z[N])""",
        "equal float double float16 int32 int64": """
            Max(x[N], z[N])
            Min(x[N], z[N])
            Min(x[3,N], z![1], v[N])
            Relu(x[N])
            Where(c:bool[N], x[N], z[N])
            Where(c:bool[3,1], x[], z[N])
            Clip(x[N], low![]={-1}, high![]={1})""",
        "bits float double float16 int32 int64": """
            Abs(x[N])
            Neg(x[N])
            Identity(x[N])
            Sign(x[N])""",
        "bits float double float16": """
            Floor(x[N])
            Ceil(x[N])
            Round(x[N])
            IsNaN(x[N])
            IsInf(x[N])""",
        "bits uint32 uint64": """
            Equal(x[N], z[N])
            Less(x[N], z[N])""",
        "bits float double int32 int64 uint8": """
            Equal(x[N], z[N])
            Less(x[N], z[N])
            Greater(x[N], z[3,N])
            LessOrEqual(x[N], z[])
            GreaterOrEqual(x[3,N], z![3,1])""",
        "bits bool": """
            And(x[N], z[N])
            Or(x[N], z[3,N])
            Xor(x[N], z[N])
            Not(x[N])""",
        "bits int32 int64": """
            Mod(x[N], z+[N])
            Mod<fmod=1>(x[N], z+[N])
            BitwiseAnd(x[N], z[N])
            BitwiseOr(x[N], z[3,N])
            BitwiseXor(x[N], z[N])
            BitwiseNot(x[N])""",
        "bits uint8 uint32": """
            BitShift<direction="LEFT">(x[N], z+[N])
            BitShift<direction="RIGHT">(x[N], z+[N])""",
        "bits float": """
            Cast<to=7>(x[N])
            Cast<to=6>(x[N])
            Cast<to=9>(x[N])
            Cast<to=10>(x[N])
            Cast<to=11>(x[N])
            CastLike(x[N], z:int32[1])""",
        "bits int64": """
            Cast<to=1>(x[N])
            Cast<to=6>(x[N])
            Cast<to=9>(x[N])
            Cast<to=11>(x[N])""",
        "bits uint8 int8 bool": """
            Cast<to=1>(x[N])
            Cast<to=7>(x[N])""",
        "bits double": "Cast<to=1>(x[N])",
        "bits float16": "Cast<to=1>(x[N])",
        "bits int32 int64 double": "Pow(x[N], e![1]={1})",
        "near float double": """
            Mod<fmod=1>(x[N], z+[N])
            Pow(x+[N], z[N])
            Pow(x[N], e:int64![]={2})
            Pow(z![1]={2.5}, x[3,N])
            Mean(x[2,N], z[N])
            Sum(x[2,N], z[N], v[2,N])""",
    },
    "curves": {
        "near float float16": """
            Sigmoid(x[N])
            Tanh(x[N])
            Exp(x[N])
            Erf(x[N])
            Softplus(x[N])
            Elu<alpha=0.7>(x[N])""",
        "near float": """
            OneHot(i:int64[N], d:int64![]={4}, v![2])
            Log(x+[N])
            Elu(x[N])
            Selu(x[N])
            Celu<alpha=0.6>(x[N])
            Celu(x[N])
            Softsign(x[N])
            Mish(x[N])
            Gelu(x[N])
            Gelu<approximate="tanh">(x[N])
            HardSigmoid(x[N])
            HardSigmoid<alpha=0.3, beta=0.4>(x[N])
            HardSwish(x[N])
            LeakyRelu(x[N])
            LeakyRelu<alpha=0.3>(x[N])
            ThresholdedRelu(x[N])
            Shrink(x[N])
            Shrink<lambd=0.4, bias=0.1>(x[N])
            PRelu(x[N], z[N])
            PRelu(x[2,3,N], s![3,1])
            Sin(x[N])
            Cos(x[N])
            Tan(x~[N])
            Asin(x~[N])
            Acos(x~[N])
            Atan(x[N])
            Sinh(x[N])
            Cosh(x[N])
            Asinh(x[N])
            Atanh(x~[N])
            a = Add(x+[N], b![]={1}); y = Acosh(a)
            s = Sigmoid(x[N]); y = Mul(x, s)
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
            Pad<mode="constant">(x[2,N], p:int64![4]={0,1,1,2})""",
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
            Trilu(x[N,5])
            Trilu<upper=0>(x[5,N], k:int64![]={1})
            EyeLike<k=1>(x[N,4])
            ReverseSequence<batch_axis=0, time_axis=1>(x[2,N], l:int64![2]={1,1})
            NonZero(x[3,N])
            Compress<axis=1>(x[3,N], c:bool[N])
            y, r = Split<axis=1, num_outputs=2>(x[3,N])
            c = Concat<axis=0>(x[2,N], x); y, r = Split<axis=0, num_outputs=2>(c)
            r, y = Split<axis=-1>(x[N,5], s:int64![2]={2,3})
            t = Transpose(x[3,N]); y = Reshape(t, s:int64![2]={3,-1})
            t = Transpose<perm=[1,0]>(x[3,N]); y = Transpose<perm=[1,0]>(t)""",
    },
    "reductions": {
        "equal float int32": "Unique(x[N])",
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
            ReduceL1(x[3,N], a:int64![1]={1})
            ReduceL2<keepdims=0>(x[3,N], a:int64![1]={1})
            ReduceSumSquare(x[3,N], a:int64![1]={1})
            ReduceLogSum(x+[3,N], a:int64![1]={1})
            ReduceLogSumExp<keepdims=0>(x[3,N], a:int64![1]={1})
            CumSum(x[3,N], a:int64![]={1})
            CumSum<exclusive=1, reverse=1>(x[3,N], a:int64![]={-1})
            Softmax(x[3,N])
            Softmax<axis=0>(x[N,3])
            Softmax<axis=1>(x[2,N,3])
            LogSoftmax(x[3,N])
            LpNormalization(x[3,N])
            LpNormalization<axis=0>(x[N,3])""",
        "equal float int64": """
            ReduceMax(x[3,N], a:int64![1]={1})
            ReduceMax<keepdims=0>(x[N,3], a:int64![1]={0})
            ReduceMin<keepdims=0>(x[3,N], a:int64![1]={-1})
            ReduceMin(x[2,N])
            ArgMax(x[3,N])
            ArgMax<axis=1, keepdims=0>(x[3,N])
            ArgMax<axis=-1, select_last_index=1>(x[3,N])
            ArgMin<axis=1>(x[3,N])
            y, i = TopK(x[3,N], k:int64![1]={1})
            v, y = TopK<axis=0, largest=0>(x[N,3], k:int64![1]={1})""",
        "equal float": "Hardmax(x[3,N])",
        "bits int64 int32": "ReduceSum<keepdims=0>(x+[3,N], a:int64![1]={1})",
        f"bits {_WHOLE}": """
            ReduceSum<keepdims=0>(x[N,4], a:int64![1]={1})
            ReduceMax<keepdims=0>(x[N,4], a:int64![1]={1})
            CumSum(x[N,4], a:int64![]={1})""",
        "near double": """
            ReduceSum<keepdims=0>(x[N,4], a:int64![1]={1})
            CumSum(x[N,4], a:int64![]={1})""",
        "equal double": "ReduceMax<keepdims=0>(x[N,4], a:int64![1]={1})",
    },
    "products": {
        "near float float16 double": "MatMul(x[3,N], w![N,5])",
        "near float": """
            MatMul(x[N,7], w![7,3])
            MatMul(x[2,7], w[7,N])
            MatMul(x[N,N], w[N,N])
            MatMul(x[2,3,N], w[N,4])
            MatMul(x[2,1,3,N], w[3,N,2])
            MatMul(x[N], w![N,3])
            MatMul(x[3,N], w[N])
            Gemm(x[N,7], w![7,5], b![5])
            Gemm(x[3,N], w[N,5])
            Gemm<alpha=0.5, beta=2.0>(x[3,7], w![7,N], b[N])
            Gemm<transA=1>(x[7,N], w![7,5], b![])
            Gemm<transB=1, beta=0.5>(x[N,N], w[N,N], b![1])
            Gemm<transA=1, transB=1>(x[7,3], w[N,7], b![3,1])
            Einsum<equation="ij,jk->ik">(x[3,N], z[N,4])
            Einsum<equation="bij,bkj->bik">(x[2,N,3], z[2,4,3])
            m = MatMul(x[3,N], w![N,5]); y = Add(m, b![5])
            m = MatMul(x[N,7], w![7,5]); a = Add(m, b![5]); y = Relu(a)
            h = Gemm(x[N,7], w![7,8], b![8]); r = Relu(h); y = Gemm(r, u![8,3], c![3])
            t = Transpose<perm=[0,2,1]>(k[2,N,4]); s = MatMul(q[2,3,4], t); p = Softmax(s);
            y = MatMul(p, v[2,N,5])""",
        "bits uint8": "MatMulInteger(x[3,N], w![N,4])",
        f"equal {_WHOLE}": """
            MatMul(x[3,N], w[N,4])
            Einsum<equation="ij->i">(x[3,N])""",
        "near double": 'Einsum<equation="ij->i">(x[3,N])',
    },
    "windows": {
        "near float": """
            Conv(x[2,3,N,8], w![4,3,3,3])
            Conv<pads=[1,1,1,1]>(x[1,3,N,8], w![4,3,3,3], b![4])
            Conv<pads=[1,0,0,2]>(x[1,2,N,8], w![3,2,3,2], b![3])
            Conv<pads=[2,1,0,0], dilations=[2,1]>(x[1,2,N,8], w![3,2,2,3])
            Conv<auto_pad="SAME_LOWER">(x[1,2,N,8], w![3,2,2,4])
            Conv<auto_pad="SAME_UPPER", strides=[2,3]>(x[1,2,N,8], w![3,2,3,2])
            Conv<group=4, pads=[1,1,1,1]>(x[1,4,N,7], w![4,1,3,3], b![4])
            Conv<group=2, strides=[2,1]>(x[2,4,N,7], w![6,2,3,3])
            Conv<strides=[3,3]>(x[1,2,N,7], w![3,2,2,2])
            Conv(x[1,5,N,3], w![7,5,1,1], b![7])
            Conv<pads=[2,1], dilations=[2]>(x[2,3,N], w![4,3,3])
            Conv<pads=[0,1,0,1,0,1]>(x[1,2,N,5,4], w![3,2,2,2,2])
            Conv(x[1,2,N,6], w[3,2,3,3])
            c = Conv<pads=[1,1,1,1]>(x[1,3,N,8], w![4,3,3,3], b![4]); y = Relu(c)
            c = Conv(x[1,3,N,8], w![4,3,3,3]);
            n = BatchNormalization(c, s![4], b![4], m![4], v+![4]); y = Relu(n)
            c = Conv<pads=[1,1,1,1]>(x[1,3,N,8], w![3,3,3,3]); a = Add(c, x); y = Relu(a)
            p = Pad(x[1,2,N,6], q:int64![8]={0,0,1,0,0,0,0,2}); y = Conv(p, w![3,2,3,3])
            ConvTranspose(x[1,2,N,6], w![2,3,3,3])
            ConvTranspose<strides=[2,2], pads=[1,0,0,1], output_padding=[1,0]>(x[1,2,N,6],
                w![2,3,3,2], b![3])
            ConvTranspose<dilations=[2,1]>(x[1,2,N,6], w![2,3,2,3])
            AveragePool<kernel_shape=[3,2]>(x[1,2,N,8])
            AveragePool<kernel_shape=[3,3], pads=[1,0,0,2]>(x[1,2,N,8])
            AveragePool<kernel_shape=[3,3], pads=[0,1,2,0], count_include_pad=1>(x[1,2,N,8])
            AveragePool<kernel_shape=[2,3], strides=[2,2], ceil_mode=1>(x[1,2,N,8])
            AveragePool<kernel_shape=[2,2], auto_pad="SAME_LOWER">(x[1,2,N,8])
            LpPool<kernel_shape=[3,2], p=2>(x[1,2,N,8])
            GlobalAveragePool(x[2,3,N,5])""",
        "equal float": """
            MaxPool<kernel_shape=[2,2], strides=[2,2]>(x[1,3,N,8])
            MaxPool<kernel_shape=[3,3], pads=[1,0,0,2]>(x[1,2,N,8])
            MaxPool<kernel_shape=[2,3], strides=[3,2], ceil_mode=1>(x[1,2,N,8])
            MaxPool<kernel_shape=[2,2], dilations=[2,3]>(x[1,2,N,8])
            MaxPool<kernel_shape=[2,2], auto_pad="SAME_LOWER">(x[1,2,N,8])
            MaxPool<kernel_shape=[3], strides=[2]>(x[2,3,N])
            v, y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x[1,2,N,8])
            GlobalMaxPool(x[2,3,N,5])""",
    },
    "normalisations": {
        "near float": """
            BatchNormalization(x[2,3,N], s![3], b![3], m![3], v+![3])
            BatchNormalization<epsilon=0.1>(x[N,3], s![3], b![3], m![3], v+![3])
            LayerNormalization(x[3,2,N], s![N], b![N])
            LayerNormalization<axis=1, epsilon=0.1>(x[2,3,N], s![3,N])
            InstanceNormalization<epsilon=0.1>(x[2,3,N], s![3], b![3])
            GroupNormalization<num_groups=2>(x[2,4,N], s![4], b![4])
            m = ReduceMean(x[3,N], a:int64![1]={-1}); d = Sub(x, m); q = Mul(d, d);
            v = ReduceMean(q, a); e = Add(v, f![]={0.1}); r = Sqrt(e); y = Div(d, r)
            Resize<mode="nearest">(x[1,2,N,3], "", s:float![4]={1,1,2,3})
            Resize<mode="linear">(x[1,2,N,3], "", s:float![4]={1,1,2,2})
            Resize<mode="linear", coordinate_transformation_mode="align_corners">(x[1,N,5,3],
                "", s:float![4]={1,1,3,2})
            Resize<mode="cubic">(x[1,1,N,5], "", s:float![4]={1,1,2,2})
            Resize<mode="nearest", coordinate_transformation_mode="asymmetric",
                nearest_mode="floor">(x[1,2,N,3], "", s:float![4]={1,1,2,2})
            o, y = LSTM<hidden_size=4>(x[3,N,5], w![1,16,5], r![1,16,4], b![1,32])
            y, h = GRU<hidden_size=3, linear_before_reset=1>(x[3,N,5], w![1,9,5], r![1,9,3],
                b![1,18])
            y, h = RNN<hidden_size=3, direction="reverse">(x[3,N,5], w![1,3,5], r![1,3,3])""",
    },
    "quantised": {
        "step float": """
            QuantizeLinear(x[3,N], s+![], z:uint8![]={9})
            QuantizeLinear<axis=0>(x[3,N], s+![3], z:int8![3]={1,-2,3})
            y, s, z = DynamicQuantizeLinear(x[3,N])""",
        "near uint8": """
            DequantizeLinear(x[3,N], s+:float![], z:uint8![]={9})""",
        "near int8": """
            DequantizeLinear<axis=0>(x[3,N], s+:float![3], z:int8![3]={1,-2,3})""",
    },
}
