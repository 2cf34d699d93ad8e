#include <minitensor/number.hpp>
#include <minitensor/ops/copy.hpp>

#include "cuda.hpp"
#include "strided.hpp"

#include <atomic>
#include <cstring>
#include <string>

namespace mt {
namespace {

template <std::size_t Bytes>
void copy_row(unsigned char* to, unsigned char const* from, std::int64_t step, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        std::memcpy(to, from, Bytes);
        to += Bytes;
        if (i + 1 < n) from += step;
    }
}

/// Copies elements of whole bytes into compact memory.
void copy_bytes(tensor const& to, tensor const& from) {
    auto const bytes = static_cast<std::int64_t>(from.dtype().bits) / 8;
    auto* out = static_cast<unsigned char*>(to.data());
    auto const* in = static_cast<unsigned char const*>(from.data());
    auto const step =
        from.ndim() == 0 || from.shape().back() == 1 ? bytes : from.strides().back() * bytes;
    auto const row = [&](std::int64_t a, std::int64_t b, std::int64_t n) {
        auto* const dst = out + a * bytes;
        auto const* const src = in + b * bytes;
        if (step == bytes) {
            std::memcpy(dst, src, static_cast<std::size_t>(n * bytes));
            return;
        }
        switch (bytes) {
            case 1: return copy_row<1>(dst, src, step, n);
            case 2: return copy_row<2>(dst, src, step, n);
            case 4: return copy_row<4>(dst, src, step, n);
            case 8: return copy_row<8>(dst, src, step, n);
            default: return copy_row<16>(dst, src, step, n);
        }
    };
    detail::for_each_row(from.shape(), to.strides(), from.strides(), row);
}

/// Calls f(bit offset in to, bit offset in from) for each element.
template <class F>
void for_each_element(tensor const& to, tensor const& from, F&& f) {
    auto const to_bits = to.itemsize_bits();
    auto const from_bits = from.itemsize_bits();
    auto const to_step = to.ndim() == 0 ? 0 : to.strides().back();
    auto const from_step = from.ndim() == 0 ? 0 : from.strides().back();
    detail::for_each_row(from.shape(), to.strides(), from.strides(),
                         [&](std::int64_t a, std::int64_t b, std::int64_t n) {
                             for (std::int64_t i = 0; i < n; ++i) {
                                 f((a + i * to_step) * to_bits, (b + i * from_step) * from_bits);
                             }
                         });
}

[[noreturn]] void no_strided_copy(tensor const&, tensor const&, std::uintptr_t) {
    throw buffer_error{
        "minitensor copies only contiguous tensors to and from GPUs: call use_strided_copy, or make the tensor "
        "contiguous"};
}

std::atomic<strided_copy> copy_strided{&no_strided_copy};

/// Clears the unused bits after the last element of a packed type; they are zero in copies on the host.
void clear_behind(tensor const& t) {
    if (auto const rest = t.size() * t.itemsize_bits() % 8; rest != 0) {
        static_cast<unsigned char*>(t.data())[t.nbytes() - 1] &= static_cast<unsigned char>((1 << rest) - 1);
    }
}

}  // namespace

void use_strided_copy(strided_copy f) noexcept { copy_strided = f; }

tensor on_host(tensor const& t) {
    if (t.device().type == device::cpu) return t;
    if (!host_accessible(t.device())) return copy(t, device{});
    if (t.line() != nullptr) t.line()->wait();
    return t;
}

void detail::copy_queued(tensor const& to, tensor const& from, bool whole) {
    if (from.size() == 0) return;
    bool const to_gpu = is_queued(to) && (to.device().type == device::cuda || !is_queued(from));
    auto const s = current_stream(to_gpu ? to.device() : from.device());
    if (to.line() != nullptr) to.line()->continue_on(s);
    if (from.line() != nullptr) from.line()->continue_on(s);
    auto const bytes = static_cast<std::size_t>(from.nbytes());
    if (!whole || !to.contiguous() || !from.contiguous()) copy_strided.load()(to, from, s.handle);
    else if (from.device().type == device::cpu) cuda::upload(to.data(), from.data(), bytes, s);
    else cuda::copy(to.data(), from.data(), bytes, s);
    if (to.device().type == device::cpu) {
        cuda::wait(s);
        clear_behind(to);
    }
    // The last stream of a tensor is a stream of its own device.
    if (from.device().type == device::cuda && from.device().id != s.device) {
        from.line()->continue_on(current_stream(from.device()));
    }
}

tensor copy(tensor const& t, std::optional<device> where) {
    tensor fresh{t.dtype(), t.shape(), where.value_or(t.device())};
    auto const bytes = static_cast<std::size_t>(t.nbytes());
    if (bytes == 0) return fresh;
    if (detail::is_queued(t) || detail::is_queued(fresh)) {
        detail::copy_queued(fresh, t);
        return fresh;
    }
    if (t.line() != nullptr) t.line()->wait();
    if (t.dtype().packed()) {
        // The unused bits after the last element are zero in every copy.
        static_cast<unsigned char*>(fresh.data())[bytes - 1] = 0;
        for_each_element(fresh, t, [&](std::int64_t a, std::int64_t b) {
            store(t.dtype(), fresh.data(), a, load(t.dtype(), t.data(), b));
        });
    } else if (t.contiguous()) {
        std::memcpy(fresh.data(), t.data(), bytes);
    } else {
        copy_bytes(fresh, t);
    }
    return fresh;
}

tensor converted(tensor const& t, dtype type) {
    if (type == t.dtype()) return copy(t, device{});
    tensor const near = on_host(t);
    tensor fresh{type, t.shape()};
    if (fresh.size() == 0) return fresh;
    static_cast<unsigned char*>(fresh.data())[fresh.nbytes() - 1] = 0;
    for_each_element(fresh, near, [&](std::int64_t a, std::int64_t b) {
        auto const value = decode(t.dtype(), load(t.dtype(), near.data(), b));
        store(type, fresh.data(), a, encode(type, value));
    });
    return fresh;
}

}  // namespace mt
