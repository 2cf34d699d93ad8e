#pragma once
#include <ferry/ferry.hpp>
#include <minitensor/tensor.hpp>
template <> struct ferry::array_traits<mt::tensor> {
    static tensor_view view(mt::tensor const& t) {
        return {t.data(), {type_code(t.dtype().kind), t.dtype().bits}, t.shape(), t.strides(),
                {device_type(t.device().type), t.device().id}, flags(t.readonly())};
    }
    static mt::tensor share(mt::tensor const& t) { return t; }
    static mt::tensor adopt(managed_tensor m, stream_token ready) {
        auto const v = m.view();
        return {std::make_shared<managed_tensor>(std::move(m)), const_cast<void*>(v.data()),
                v.dtype(), v.shape(), v.strides(), v.device(), v.is_read_only(), v.is_copied(),
                ready.native_handle()};
    }
    static mt::tensor allocate(data_type t, shape_view s, ferry::device d) { return {t, s, d}; }
    static auto on(auto s, stream_token no) { return s ? stream_token::from_cuda_handle(s) : no; }
    static auto ready_on(mt::tensor const& t) { return on(t.ready_on().handle, already_ready); }
    static auto current_stream(ferry::device d) { return on(mt::current_stream(d).handle, {}); }
};
