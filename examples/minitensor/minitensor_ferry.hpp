#pragma once
#include <ferry/ferry.hpp>
#include <minitensor/tensor.hpp>
template <> struct ferry::array_traits<mt::tensor> {
    static tensor_view view(mt::tensor& t) {
        return {t.data(), {type_code(t.dtype().kind), t.dtype().bits}, t.shape(), t.strides(),
                {device_type(t.device().type), t.device().id},
                t.readonly() ? flags::read_only : flags::none};
    }
    static mt::tensor share(mt::tensor const& t) { return t; }
    static mt::tensor adopt(managed_tensor m) {
        auto const v = m.view();
        return {std::make_shared<managed_tensor>(std::move(m)), v.data(),
                {mt::kind(v.dtype().code), v.dtype().bits}, {v.shape().begin(), v.shape().end()},
                {v.strides().begin(), v.strides().end()},
                {int(v.device().type), v.device().id}, v.is_read_only(), v.is_copied()};
    }
    static mt::tensor allocate(data_type t, shape_view s, ferry::device d) {
        return {{mt::kind(t.code), t.bits}, {s.begin(), s.end()}, {int(d.type), d.id}};
    }
};
