#pragma once
#include <ferry/ferry.hpp>
#include <minitensor/tensor.hpp>
template <> struct ferry::array_traits<mt::tensor> {
    static tensor_view view(mt::tensor const& t) {
        return {t.data(), data_type(type_code(t.dtype().kind), t.dtype().bits), t.shape(), t.strides(),
                {device_type(t.device().type), t.device().id}, flags(t.readonly())};
    }
    static mt::tensor share(mt::tensor const& t) { return t; }
    static mt::tensor adopt(managed_tensor m) {
        tensor_view const v = m.view();
        return mt::tensor(std::make_shared<managed_tensor>(std::move(m)), v.data(), {mt::kind(v.dtype().code), v.dtype().bits},
                          v.shape(), v.strides(), {int(v.device().type), v.device().id}, v.is_read_only(), v.is_copied());
    }
    static mt::tensor allocate(data_type t, shape_view s, ferry::device d) { return {{mt::kind(t.code), t.bits}, s, {int(d.type), d.id}}; }
    static stream_token on(mt::stream const& s, stream_token none) { return s.handle ? stream_token::from_cuda_handle(s.handle) : none; }
    static stream_token ready_on(mt::tensor const& t) { return on(t.ready_on(), already_ready); }
    static stream_token current_stream(ferry::device d) { return on(mt::current_stream({int(d.type), d.id}), {}); }
};
