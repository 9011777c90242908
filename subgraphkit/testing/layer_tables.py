"""The other half of ``operator_tables``: layers of networks, and the runs that libraries fuse."""

from collections.abc import Mapping
from typing import Final

LAYERS: Final[Mapping[str, Mapping[str, str]]] = {
    "products": {
        "near float float16 double": "MatMul(x[3,N], w![N,5])",
        "near float": """
            MatMul|Gemm(x[N,C], w![C,C])
            MatMul(x[N,4,C], w![C,C])
            Gemm(x[N,C], w![C,C], b![C])
            Gemm<transB=1>(x[N,C], w![C,C], b![C])
            Einsum<equation="ij,jk->ik">(x[N,C], w![C,C])
            a = MatMul(x[N,C], w![C,C]); b = Add(a, x); y = Relu(b)
            m = MatMul(x[N,4,C], w![C,C]); y = Add(m, b![C])
            m = MatMul(x[N,C], w![C,C]); a = Add(m, b![C]); y = Gelu(a)
            h = Gemm(x[N,C], w![C,2C], b![2C]); r = Relu(h); y = Gemm(r, u![2C,C], c![C])
            t = Transpose<perm=[0,2,1]>(x[N,4,C]); s = MatMul(x, t); y = MatMul(s, x)
            t = Transpose<perm=[0,2,1]>(x[N,4,C]); s = MatMul(x, t); k = Div(s, d![]={3});
            p = Softmax(k); y = MatMul(p, x)
            MatMul(x[N,7], w![7,3])
            MatMul(x[N,0], w![0,3])
            Gemm(x[N,0], w![0,3], b![3])
            Einsum<equation="ij,jk->ik">(x[N,0], w![0,3])
            Einsum<equation="...ij->...ji">(x[2,3,N])
            Einsum<equation="bi,bi->b">(x[3,N], z[3,N])
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
            Gemm<transA=1>(x[N,N], w[N,N])
            Gemm<transB=1, beta=0.5>(x[N,N], w[N,N], b![1])
            Gemm<transA=1, transB=1>(x[7,3], w[N,7], b![3,1])
            Einsum<equation="ij,jk->ik">(x[3,N], z[N,4])
            Einsum<equation="bij,bkj->bik">(x[2,N,3], z[2,4,3])
            m = MatMul(x[3,N], w![N,5]); y = Add(m, b![5])
            t = Transpose<perm=[0,2,1]>(k[2,N,4]); s = MatMul(q[2,3,4], t); p = Softmax(s);
            y = MatMul(p, v[2,N,5])""",
        "bits uint8": "MatMulInteger(x[3,N], w![N,4])",
        "equal int32 int64 uint32 uint64": """
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
            Conv<auto_pad="SAME_UPPER">(x[1,2,N,8], w![3,2,2,4])
            Conv<auto_pad="SAME_UPPER">(x[1,2,N], w![3,2,2])
            Conv<auto_pad="SAME_LOWER", strides=[2,3]>(x[1,2,N,9], w![3,2,4,2])
            Conv<auto_pad="VALID", strides=[2,1]>(x[1,2,N,8], w![3,2,2,3])
            Conv<group=4, pads=[1,1,1,1]>(x[1,4,N,7], w![4,1,3,3], b![4])
            Conv<group=2, strides=[2,1]>(x[2,4,N,7], w![6,2,3,3])
            Conv<strides=[3,3]>(x[1,2,N,7], w![3,2,2,2])
            Conv(x[1,5,N,3], w![7,5,1,1], b![7])
            Conv<pads=[2,1], dilations=[2]>(x[2,3,N], w![4,3,3])
            Conv<pads=[0,1,0,1,0,1]>(x[1,2,N,5,4], w![3,2,2,2,2])
            Conv(x[1,2,N,6], w[3,2,3,3])
            Conv<pads=[1,1,1,1]>(x[N,C,6,6], w![C,C,3,3], b![C])
            Conv|ConvTranspose<pads=[1,1,1,1]>(x[N,C,6,6], w![C,C,3,3])
            Conv(x[N,C,6,6], w![C,C,1,1], b![C])
            Conv<pads=[1,1,1,1], group=C>(x[N,C,6,6], w![C,1,3,3], b![C])
            Conv<pads=[1,1]>(x[N,C,9], w![C,C,3])
            Conv<pads=[1,1,1,1,1,1]>(x[N,C,4,4,4], w![C,C,3,3,3])
            c = Conv<pads=[1,1,1,1]>(x[N,C,6,6], w![C,C,3,3], b![C]); y = Relu(c)
            c = Conv<pads=[1,1,1,1]>(x[N,C,6,6], w![C,C,3,3]);
            n = BatchNormalization(c, s![C], b![C], m![C], v+![C]); y = Relu(n)
            c = Conv<pads=[1,1,1,1]>(x[N,C,6,6], w![C,C,3,3]);
            y = BatchNormalization(c, s![C], b![C], m![C], v+![C])
            c = Conv<pads=[1,1,1,1]>(x[N,C,6,6], w![C,C,3,3], b![C]);
            y = Clip(c, low![]={0}, high![]={6})
            c = Conv<pads=[1,1,1,1]>(x[N,C,6,6], w![C,C,3,3], b![C]); s = Sigmoid(c); y = Mul(c, s)
            c = Conv<pads=[1,1,1,1]>(x[N,C,6,6], w![C,C,3,3], b![C]); a = Add(c, x); y = Relu(a)
            c = Conv<pads=[1,1,1,1]>(x[N,C,6,6], w![C,C,3,3]);
            n = BatchNormalization(c, s![C], b![C], m![C], v+![C]); r = Relu(n);
            d = Conv<pads=[1,1,1,1]>(r, w);
            e = BatchNormalization(d, s, b, m, v); a = Add(e, x); y = Relu(a)
            p = Pad(x[1,2,N,6], q:int64![8]={0,0,1,0,0,0,0,2}); y = Conv(p, w![3,2,3,3])
            ConvTranspose(x[1,2,N,6], w![2,3,3,3])
            ConvTranspose<strides=[2,2], pads=[1,0,0,1], output_padding=[1,0]>(x[1,2,N,6],
                w![2,3,3,2], b![3])
            ConvTranspose<dilations=[2,1]>(x[1,2,N,6], w![2,3,2,3])
            ConvTranspose<group=2>(x[1,4,N,6], w![4,2,3,3]) ==
                a, b = Split<axis=1, num_outputs=2>(x[1,4,N,6]);
                u, v = Split<axis=0, num_outputs=2>(w![4,2,3,3]);
                c = ConvTranspose(a, u); d = ConvTranspose(b, v); y = Concat<axis=1>(c, d)
            ConvTranspose<output_shape=[11,12], strides=[2,2]>(x[1,2,5,6], w![2,3,3,3]) ==
                ConvTranspose<pads=[0,1,0,0], strides=[2,2]>(x[1,2,5,6], w![2,3,3,3])
            AveragePool<kernel_shape=[2,2], dilations=[2,3]>(x[1,2,N,8])
            LpPool<kernel_shape=[3,2], p=1, strides=[2,1], pads=[1,0,0,1]>(x[1,2,N,8])
            LpPool<kernel_shape=[2,2], p=3, dilations=[2,1]>(x[1,2,N,8])
            AveragePool<kernel_shape=[3,2]>(x[1,2,N,8])
            AveragePool<kernel_shape=[3,3], pads=[1,0,0,2]>(x[1,2,N,8])
            AveragePool<kernel_shape=[3,3], pads=[0,1,2,0], count_include_pad=1>(x[1,2,N,8])
            AveragePool<kernel_shape=[2,3], strides=[2,2], ceil_mode=1>(x[1,2,N,8])
            AveragePool<kernel_shape=[2,2], auto_pad="SAME_LOWER">(x[1,2,N,8])
            AveragePool<kernel_shape=[1,3], strides=[1,2]>(x[1,2,N,1])
            AveragePool<kernel_shape=[1,3], strides=[1,2], ceil_mode=1>(x[1,2,N,1])
            AveragePool<kernel_shape=[2,4], auto_pad="SAME_UPPER">(x[1,2,N,8])
            AveragePool<kernel_shape=[4,2], strides=[3,1], auto_pad="SAME_UPPER">(x[1,2,N,8])
            AveragePool<kernel_shape=[2,3]>(x[1,2,N,2])
            LpPool<kernel_shape=[2,2], auto_pad="SAME_UPPER">(x[1,2,N,8])
            ConvTranspose<auto_pad="SAME_UPPER", strides=[2,2]>(x[1,2,N,6], w![2,3,3,3])
            ConvTranspose<auto_pad="SAME_LOWER", strides=[2,2]>(x[1,2,N,6], w![2,3,3,3])
            ConvTranspose<auto_pad="SAME_UPPER", strides=[3,1]>(x[1,2,N,6], w![2,3,4,2])
            AveragePool<kernel_shape=[3,3], pads=[1,1,1,1]>(x[N,C,6,6])
            LpPool<kernel_shape=[3,2], p=2>(x[1,2,N,8])
            GlobalAveragePool(x[N,C,6,6])
            GlobalAveragePool(x[2,3,N,5])""",
        "equal float": """
            MaxPool<kernel_shape=[2,2], strides=[2,2]>(x[1,3,N,8])
            MaxPool<kernel_shape=[3,3], pads=[1,0,0,2]>(x[1,2,N,8])
            MaxPool<kernel_shape=[2,3], strides=[3,2], ceil_mode=1>(x[1,2,N,8])
            MaxPool<kernel_shape=[2,2], dilations=[2,3]>(x[1,2,N,8])
            MaxPool<kernel_shape=[1,2], strides=[1,2]>(x[1,2,N,1])
            MaxPool<kernel_shape=[1,4], strides=[1,2], ceil_mode=1>(x[1,2,N,2])
            MaxPool<kernel_shape=[2,2], auto_pad="SAME_LOWER">(x[1,2,N,8])
            MaxPool<kernel_shape=[2,4], auto_pad="SAME_UPPER">(x[1,2,N,8])
            MaxPool<kernel_shape=[4,2], strides=[3,1], auto_pad="SAME_UPPER">(x[1,2,N,8])
            MaxPool<kernel_shape=[2,3]>(x[1,2,N,2]) ==
                Slice(x[1,2,N,2], a:int64![2]={0,0}, b:int64![2]={-1,0}, d:int64![2]={2,3})
            MaxPool<kernel_shape=[3], strides=[2]>(x[2,3,N])
            v, y = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x[1,2,N,8])
            MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(x[N,C,6,6])
            GlobalMaxPool(x[N,C,6,6])
            GlobalMaxPool(x[2,3,N,5])""",
    },
    "normalisations": {
        "near float": """
            BatchNormalization(x[N,C,6,6], s![C], b![C], m![C], v+![C])
            BatchNormalization(x[N,C], s![C], b![C], m![C], v+![C])
            LayerNormalization(x[N,C], s![C], b![C])
            LayerNormalization(x[N,4,C], s![C], b![C])
            a = Add(x[N,C], w![C]); y = LayerNormalization(a, s![C], b![C])
            InstanceNormalization(x[N,C,6,6], s![C], b![C])
            GroupNormalization<num_groups=2>(x[N,C,6,6], s![C], b![C])
            Resize<mode="nearest">(x[N,C,6,6], "", s:float![4]={1,1,2,2})
            y, h, c = LSTM<hidden_size=C>(x[4,N,C], w![1,4C,C], r![1,4C,C])
            y, h = GRU<hidden_size=C>(x[4,N,C], w![1,3C,C], r![1,3C,C])
            y, h = RNN<hidden_size=C>(x[4,N,C], w![1,C,C], r![1,C,C])
            BatchNormalization(x[2,3,N], s![3], b![3], m![3], v+![3])
            BatchNormalization<epsilon=0.1>(x[N,3], s![3], b![3], m![3], v+![3])
            LayerNormalization(x^[N,C], s![C], b![C])
            LayerNormalization(x^[3,N], s![N])
            LayerNormalization<axis=1>(x^[3,N,4], s![N,4], b![N,4])
            m = ReduceMean(x^[3,N], a:int64![1]={-1}); d = Sub(x, m); q = Mul(d, d);
            v = ReduceMean(q, a); e = Add(v, f![]={0.00001}); r = Sqrt(e); y = Div(d, r)
            InstanceNormalization(x^[N,C,6,6], s![C], b![C])
            MeanVarianceNormalization(x^[N,C,6,6]) ==
                m = ReduceMean(x^[N,C,6,6], a:int64![3]={0,2,3}); d = Sub(x, m); q = Mul(d, d);
                v = ReduceMean(q, a); r = Sqrt(v); e = Add(r, f![]={0.000000001}); y = Div(d, e)
            BatchNormalization(x^[N,3], s![3], b![3], m^![3], v+![3])
            LayerNormalization(x[3,2,N], s![N], b![N])
            LayerNormalization<axis=1, epsilon=0.1>(x[2,3,N], s![3,N])
            InstanceNormalization<epsilon=0.1>(x[2,3,N], s![3], b![3])
            GroupNormalization<num_groups=2>(x[2,4,N], s![4], b![4])
            m = ReduceMean(x[3,N], a:int64![1]={-1}); d = Sub(x, m); q = Mul(d, d);
            v = ReduceMean(q, a); e = Add(v, f![]={0.1}); r = Sqrt(e); y = Div(d, r)
            LRN<size=3, bias=0.5>(x[2,4,N,2])
            LRN<size=5, alpha=0.3, beta=0.5>(x[2,7,N,2])
            GroupNormalization<num_groups=3, epsilon=0.1>(x[2,6,N], s![6], b![6])
            GridSample(x[1,C,5,6], g~![1,2,3,2])
            GridSample<mode="nearest", padding_mode="border", align_corners=1>(x[1,C,5,6],
                g![1,2,3,2])
            RoiAlign<output_height=2, output_width=3, sampling_ratio=2>(x[2,C,N,6],
                r![2,4]={0.0,0.0,4.0,4.0,1.0,1.0,5.0,3.0}, b:int64![2]={0,1})
            Det(x[N,C,3,3])
            DFT(x[N,C,1], "", a:int64![]={1})
            DFT<inverse=1>(x[N,8,2], "", a:int64![]={1})
            DFT<onesided=1>(x[N,8,1], l:int64![]={5}, a:int64![]={1})
            Col2Im(x[2,4C,9], i:int64![2]={4,4}, b:int64![2]={2,2})
            Col2Im<strides=[2,1], pads=[1,0,0,1], dilations=[1,2]>(x[2,4C,12], i:int64![2]={5,5},
                b:int64![2]={2,2})
            RoiAlign<coordinate_transformation_mode="output_half_pixel", output_height=2,
                sampling_ratio=2, spatial_scale=0.5>(x[2,C,N,6], r![1,4]={0.0,0.0,4.0,4.0},
                b:int64![1]={1})
            SoftmaxCrossEntropyLoss(x[N,9], l+:int64[N])
            SoftmaxCrossEntropyLoss<reduction="sum", ignore_index=3>(x[N,9], l+:int64[N], w+![9])
            NegativeLogLikelihoodLoss<reduction="sum">(x[N,9], l+:int64[N])
            NegativeLogLikelihoodLoss<ignore_index=2>(x[N,9], l+:int64[N], w+![9])
            Resize<mode="nearest">(x[1,2,N,3], "", s:float![4]={1,1,2,3})
            Resize<mode="linear">(x[1,2,N,3], "", s:float![4]={1,1,2,2})
            Resize<mode="linear", coordinate_transformation_mode="align_corners">(x[1,N,5,3],
                "", s:float![4]={1,1,3,2})
            Resize<mode="cubic">(x[1,1,N,5], "", s:float![4]={1,1,2,2})
            Resize<mode="nearest", coordinate_transformation_mode="asymmetric",
                nearest_mode="floor">(x[1,2,N,3], "", s:float![4]={1,1,2,2})
            Resize<mode="linear", coordinate_transformation_mode="half_pixel_symmetric|
                pytorch_half_pixel">(x[1,2,N,3], "", s:float![4]={1,1,2,1.5})
            Resize<mode="nearest", nearest_mode="ceil|round_prefer_ceil">(x[1,2,N,4], "",
                s:float![4]={1,1,2,1.5})
            Resize<mode="linear|cubic">(x[1,1,N,6], "", s:float![4]={1,1,1,0.5})
            Resize<mode="linear|cubic", antialias=1>(x[1,1,N,6], "", s:float![4]={1,1,1,0.5})
            Resize<mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1>(x[1,1,N,5], "",
                s:float![4]={1,1,2,2})
            Resize<mode="linear", axes=[3]>(x[1,2,N,3], "", s:float![1]={2})
            Resize<mode="nearest", axes=[3]>(x[1,2,N,4], "", "", t:int64![1]={7})
            Resize<mode="nearest", keep_aspect_ratio_policy="not_larger|not_smaller", axes=[2,3]>(
                x[N,2,4,6], "", "", t:int64![2]={7,8})
            Resize<mode="linear", coordinate_transformation_mode="tf_crop_and_resize",
                extrapolation_value=2.5>(x[1,1,4,N], r![8]={0.0,0.0,0.2,0.1,1.0,1.0,1.3,0.9},
                "", t:int64![4]={1,1,5,6})
            y, h, c = LSTM<hidden_size=4>(x[N,2,5], w![1,16,5], r![1,16,4], b![1,32], "",
                g![1,2,4], d![1,2,4], p![1,12])
            y, h, c = LSTM<hidden_size=4, direction="bidirectional">(x[N,2,5], w![2,16,5],
                r![2,16,4], b![2,32])
            y, h = GRU<hidden_size=3, direction="bidirectional">(x[N,2,5], w![2,9,5], r![2,9,3],
                b![2,18], "", g![2,2,3])
            y, h = GRU<hidden_size=3>(x[N,2,5], w![1,9,5], r![1,9,3], b![1,18], "", g![1,2,3])
            y, h = GRU<hidden_size=3, layout=1>(x[2,N,5], w![1,9,5], r![1,9,3])
            y = RNN<hidden_size=3, clip=0.4, activations=["Relu"]>(x[1,N,5], w![1,3,5],
                r![1,3,3]) ==
                t = Transpose<perm=[0,2,1]>(w![1,3,5]); m = MatMul(x[1,N,5], t);
                c = Clip(m, l![]={-0.4}, u![]={0.4}); h = Relu(c); y = Unsqueeze(h, a:int64![1]={1})
            y = RNN<hidden_size=3>(x[N,2,5], w![1,3,5], r![1,3,3], "", l:int32![2]={1,1}) ==
                t = Transpose<perm=[0,2,1]>(w![1,3,5]); m = MatMul(x[N,2,5], t); h = Tanh(m);
                f = Slice(h, a:int64![1]={0}, b:int64![1]={1}); z = Sub(h, h);
                r = Slice(z, b, e:int64![1]={9999}); c = Concat<axis=0>(f, r); y = Unsqueeze(c, b)
            y, h = RNN<hidden_size=3, direction="bidirectional">(x[N,2,5], w![2,3,5], r![2,3,3],
                b![2,6])
            o, y = LSTM<hidden_size=4>(x[3,N,5], w![1,16,5], r![1,16,4], b![1,32])
            y, h = GRU<hidden_size=3, linear_before_reset=1>(x[3,N,5], w![1,9,5], r![1,9,3],
                b![1,18])
            y, h = RNN<hidden_size=3, direction="reverse">(x[3,N,5], w![1,3,5], r![1,3,3])""",
        "near float @18": """
            Resize<mode="linear">(x[1,2,N,3], "", s:float![4]={1,1,2,2})""",
        "near float @12": """
            ReduceLogSumExp<axes=[0]>(x[3,N])
            ReduceLogSum<axes=[0]>(x+[3,N,1])
            Resize<mode="nearest">(x[1,2,N,3], r![0], s:float![4]={1,1,2,3})
            Resize<mode="linear", coordinate_transformation_mode="asymmetric">(x[1,2,N,3], r![0],
                s:float![4]={1,1,2,2})""",
        "near float @10": """
            Resize<mode="nearest">(x[1,2,N,3], s:float![4]={1,1,2,3})
            Resize<mode="linear">(x[1,2,N,3], s:float![4]={1,1,2,2})
            Scatter<axis=1>(x[2,N], i:int64![2,1]={0,0}, z[2,1])""",
        "near float @9": """
            Upsample<mode="nearest">(x[1,2,N,3], s:float![4]={1,1,2,3})
            Upsample<mode="linear">(x[1,2,N,3], s:float![4]={1,1,2,2})""",
        "near float @8": """
            Upsample<mode="nearest", scales=[1.0,1.0,2.0,3.0]>(x[1,2,N,3])
            BatchNormalization<spatial=1>(x[2,3,N], s![3], b![3], m![3], v+![3])""",
    },
    "attention": {
        "near float @23": """
            Attention<q_num_heads=2, kv_num_heads=2>(x[N,4,C], x, x)
            Attention(x[N,2,4,C], x, x)
            RotaryEmbedding(x[N,2,3,8], c![9,4], s![9,4], p+:int64[N,3])
            RotaryEmbedding<interleaved=1, num_heads=2>(x[N,3,16], c![9,4], s![9,4],
                p+:int64[N,3])
            RotaryEmbedding<rotary_embedding_dim=4>(x[N,2,3,8], c![9,2], s![9,2], p+:int64[N,3])
            Attention<is_causal=1>(x[N,2,4,C], x, x)
            Attention<scale=0.3>(x[N,2,4,C], x, x)
            Attention<softcap=0.5>(x[N,2,4,C], x, x)
            Attention(x[N,2,4,C], x, x, m![4,4])
            Attention<q_num_heads=4, kv_num_heads=2>(x[N,3,16], k[N,3,8], v[N,3,8])
            y, k, v = Attention(x[N,2,4,8], x, x, "", p[N,2,3,8], q[N,2,3,8])
            y, k, v, q = Attention<qk_matmul_output_mode=2>(x[N,2,4,8], x, x)
            RMSNormalization<axis=1, epsilon=0.1>(x[N,4,C], s![4,C])
            RMSNormalization(x[N,C], s![C])
            RMSNormalization(x[N,4,C], s![C])""",
    },
    "quantised": {
        "step float": """
            QuantizeLinear(x[3,N], s+![], z:uint8![]={9})
            QuantizeLinear<axis=0>(x[3,N], s+![3], z:int8![3]={1,-2,3})
            QuantizeLinear<axis=0, block_size=2>(x[4,N], s+![2,N])
            QuantizeLinear(x[N,C], s:float![]={0.037}, z:uint8![]={128})
            QuantizeLinear(x[N,C], s:float![]={1.0}, z:int8![]={1})
            QuantizeLinear(x*[N,C], s:float![]={0.037}, z:int8![]={-5})
            y, s, z = DynamicQuantizeLinear(x[N,C])""",
        "step uint8": """
            QLinearConv<pads=[1,1,1,1]>(x[N,C,6,6], r:float![]={0.037}, z![]={3}, w![C,C,3,3],
                s:float![]={0.041}, z, t:float![]={0.113}, z)
            QLinearConv<pads=[1,1,1,1]>(x[N,C,6,6], r:float![]={0.037}, z![]={3}, w:int8![C,C,3,3],
                s:float![]={0.041}, o:int8![]={0}, t:float![]={0.113}, z)
            QLinearConv<group=2, strides=[2,1]>(x[N,4,6,6], r:float![]={0.037}, z![]={3},
                w:int8![6,2,3,3], s:float![]={0.041}, o:int8![]={0}, t:float![]={0.113}, z,
                b:int32![6])
            QLinearMatMul(x[N,C], r:float![]={0.037}, z![]={3}, w![C,C], s:float![]={0.041}, z,
                t:float![]={0.113}, z)
            f = DequantizeLinear(x[N,C,6,6], r:float![]={0.037}, z![]={3});
            k = DequantizeLinear(w:int8![C,C,3,3], s:float![]={0.041}, o:int8![]={0});
            c = Conv<pads=[1,1,1,1]>(f, k); y = QuantizeLinear(c, t:float![]={0.113}, z)""",
        "bits uint8": """
            ConvInteger<group=2, strides=[2,1], dilations=[1,2]>(x[N,4,6,6], w![6,2,3,3], z![]={3},
                z)
            ConvInteger<pads=[1,1,1,1]>(x[N,C,6,6], w![C,C,3,3], z![]={3}, z)
            MatMulInteger(x[N,C], w![C,C], z![]={3}, z)""",
        "near uint8": """
            DequantizeLinear(x[N,C], s:float![]={0.037}, z![]={9})
            DequantizeLinear(x[3,N], s+:float![], z:uint8![]={9})""",
        "near int8": """
            DequantizeLinear<axis=0>(x[3,N], s+:float![3], z:int8![3]={1,-2,3})
            DequantizeLinear<axis=0, block_size=2>(x[4,N], s+:float![2,N])""",
    },
}
