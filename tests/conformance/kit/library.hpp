// A small array library and its adapter, in which one of many faults can be enabled at run time.
#pragma once

#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/to_dlpack.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

namespace library {

enum class fault {
    none,
    shape_reversed,
    shape_with_one_more,
    type_in_bytes,
    type_always_float,
    strides_in_bytes,
    strides_forgotten,
    stride_missing,
    offset_forgotten,
    read_only_forgotten,
    flags_unknown,
    misaligned,
    device_unknown,
    empty_flattened,
    empty_refused,
    scalar_as_one,
    share_copies,
    share_without_owning,
    share_leaks,
    share_releases,
    allocate_swapped,
    allocate_other_type,
    allocate_read_only,
    allocate_same_memory,
    allocate_anywhere,
    allocate_leaks,
    allocate_overlapping,
    adopt_drops,
    adopt_leaks,
    adopt_releases_twice,
    adopt_copies,
    adopt_without_strides,
    adopt_with_struct_data,
    adopt_null_strides_as_zero,
    adopt_positive_strides,
    adopt_writable,
    adopt_on_cpu,
    adopt_any_type,
    adopt_keeps_struct,
    adopt_writes_struct,
    adopt_scalar_as_one,
    adopt_null_refused,
    adopt_nothing,
    adopt_touches_memory,
    adopt_forgets_stream,
    ready_always,
    ready_nowhere,
    ready_on_null,
    ready_elsewhere,
    ready_on_other_family,
    current_on_null,
    current_on_other_family,
    last
};
inline fault now = fault::none;
inline bool is(fault f) { return now == f; }

/// Memory that is poisoned when it is released but not freed, so that late reads are safe and detected.
struct storage {
    alignas(256) std::byte bytes[8192];
};
inline std::deque<storage> pool;
inline long long live = 0;

inline void release(storage& s) {
    std::memset(s.bytes, 0xEE, sizeof s.bytes);
    --live;
}
inline std::shared_ptr<void> fresh(std::byte*& data) {
    static storage always;
    auto& s = is(fault::allocate_same_memory) ? always : pool.emplace_back();
    std::memset(s.bytes, 0, sizeof s.bytes);
    data = s.bytes;
    ++live;
    return {&s, [&s](void*) { release(s); }};
}

/// An array; copies share the elements.
struct array {
    std::shared_ptr<void> owner;
    std::byte* data = nullptr;
    std::int64_t offset = 0;  // of the first element, in elements
    ferry::data_type type;
    std::vector<std::int64_t> shape, strides;
    ferry::device device{};
    bool is_read_only = false;
    ferry::stream_token ready_on = ferry::already_ready;
    DLTensor const* kept = nullptr;
};

inline std::vector<std::int64_t> compact(ferry::shape_view shape) {
    std::vector<std::int64_t> steps(shape.size());
    ferry::fill_compact_strides(shape, steps.data());
    return steps;
}

inline ferry::stream_token stream_of(ferry::device d, std::uintptr_t handle) {
    if (ferry::uses_cuda_streams(d.type)) return ferry::stream_token::from_cuda_handle(handle);
    if (ferry::uses_rocm_streams(d.type)) return ferry::stream_token::rocm_handle(handle);
    return ferry::stream_token::native(d.type, handle);
}

}  // namespace library

template <>
struct ferry::array_traits<library::array> {
    using array = library::array;
    using fault = library::fault;
    static bool is(fault f) { return library::is(f); }

    static tensor_view view(array const& a) {
        static std::int64_t const one[1] = {1}, none[1] = {0};
        static thread_local std::int64_t other[2][8];
        if (a.kept != nullptr) return {*a.kept, flags(a.is_read_only)};
        auto type = a.type;
        auto const item = bits_per_element(type) / 8;
        shape_view shape = a.shape;
        strides_view strides = a.strides;
        int const rank = shape.rank();
        for (int i = 0; i < rank && i < 7; ++i) {
            other[0][i] = is(fault::shape_reversed) ? shape[rank - 1 - i] : shape[i];
            other[1][i] = is(fault::strides_in_bytes) ? strides[i] * item : strides[i];
        }
        if (is(fault::shape_reversed)) shape = {other[0], rank};
        if (is(fault::shape_with_one_more)) {
            other[0][rank] = 1;
            other[1][rank] = 1;
            shape = {other[0], rank + 1};
            strides = {other[1], rank + 1};
        }
        if (is(fault::strides_in_bytes)) strides = {other[1], rank};
        if (is(fault::strides_forgotten)) strides = {};
        if (is(fault::stride_missing) && rank > 1) strides = {strides.data(), rank - 1};
        if (is(fault::type_in_bytes)) type.bits = static_cast<std::uint8_t>(type.bits / 8);
        if (is(fault::type_always_float)) type = dtype_of<float>;
        if (is(fault::scalar_as_one) && rank == 0) shape = one, strides = one;
        if (a.data != nullptr || rank > 0) {
            for (auto const extent : shape) {
                if (extent != 0) continue;
                if (is(fault::empty_flattened)) shape = none, strides = one;
                if (is(fault::empty_refused)) throw std::runtime_error{"it is empty"};
                break;
            }
        }
        auto* data = a.data == nullptr ? nullptr
                                       : a.data + (is(fault::offset_forgotten) ? 0 : a.offset * item) +
                                             (is(fault::misaligned) ? 1 : 0);
        auto bits = flags(a.is_read_only && !is(fault::read_only_forgotten));
        if (is(fault::flags_unknown)) bits |= flags(std::uint64_t{1} << 40);
        auto const d = is(fault::device_unknown) ? device{device_type(99)} : a.device;
        return {static_cast<void*>(data), type, shape, strides, d, bits};
    }
    static array share(array const& a) {
        array b = a;
        if (is(fault::share_copies)) {
            b.owner = library::fresh(b.data);
            if (a.device == cpu) std::memcpy(b.data, a.data, sizeof(library::storage::bytes) / 8);
        }
        if (is(fault::share_without_owning)) b.owner = {std::shared_ptr<void>{}, a.owner.get()};
        if (is(fault::share_leaks)) {
            static auto& leaked = *new std::deque<std::shared_ptr<void>>;
            leaked.push_back(a.owner);
        }
        if (is(fault::share_releases) && a.device == cpu)
            b.owner = {a.owner.get(), [](void* p) { library::release(*static_cast<library::storage*>(p)); }};
        return b;
    }
    static array adopt(managed_tensor m, stream_token ready) {
        if (is(fault::adopt_nothing)) throw std::runtime_error{"no"};
        auto const v = m.view();
        DLTensor const& raw = m.get()->dl_tensor;
        if (!v.dtype().lanes || v.dtype().lanes != 1) throw std::runtime_error{"no vectors"};
        if (is(fault::adopt_null_refused) && v.data() == nullptr) throw std::runtime_error{"no address"};
        array a;
        a.data = static_cast<std::byte*>(is(fault::adopt_with_struct_data) ? raw.data : const_cast<void*>(v.data()));
        a.type = is(fault::adopt_any_type) ? dtype_of<float> : v.dtype();
        a.device = is(fault::adopt_on_cpu) ? cpu : v.device();
        a.is_read_only = v.is_read_only() && !is(fault::adopt_writable);
        if (is(fault::adopt_keeps_struct)) a.kept = &raw;
        if (is(fault::adopt_writes_struct)) const_cast<DLManagedTensorVersioned*>(m.get())->flags = 0x100;
        for (int i = 0; i < v.rank(); ++i) {
            a.shape.push_back(v.extent(i));
            auto step = v.stride(i);
            if (is(fault::adopt_null_strides_as_zero) && raw.strides == nullptr) step = 0;
            if (is(fault::adopt_positive_strides) && step < 0) step = -step;
            a.strides.push_back(step);
        }
        if (is(fault::adopt_without_strides)) a.strides = library::compact(a.shape);
        if (is(fault::adopt_scalar_as_one) && v.rank() == 0) a.shape = {1}, a.strides = {1};
        if (a.device != cpu) a.ready_on = is(fault::adopt_forgets_stream) ? current_stream(a.device) : ready;
        if (is(fault::adopt_touches_memory) && a.device != cpu) std::memset(a.data, 0, 4);
        if (is(fault::adopt_copies) && a.device == cpu) {
            auto const* const from = a.data;
            a.owner = library::fresh(a.data);
            if (from != nullptr && v.is_contiguous()) std::memcpy(a.data, from, static_cast<std::size_t>(v.nbytes()));
            return a;
        }
        if (is(fault::adopt_drops)) return a;
        if (is(fault::adopt_leaks)) return static_cast<void>(m.release()), a;
        a.owner = std::shared_ptr<void>{m.release(), [](void* p) {
                                            auto* const t = static_cast<DLManagedTensorVersioned*>(p);
                                            if (is(fault::adopt_releases_twice)) t->deleter(t);
                                            t->deleter(t);
                                        }};
        return a;
    }
    static array allocate(data_type type, shape_view shape, device d) {
        if (d != cpu && !is(fault::allocate_anywhere)) throw std::runtime_error{"no such device"};
        array a;
        a.owner = library::fresh(a.data);
        a.type = is(fault::allocate_other_type) ? dtype_of<std::int16_t> : type;
        for (int i = 0; i < shape.rank(); ++i)
            a.shape.push_back(shape[is(fault::allocate_swapped) ? shape.rank() - 1 - i : i]);
        a.strides = library::compact(a.shape);
        if (is(fault::allocate_overlapping) && shape.rank() > 1) a.strides[0] = 0;
        a.is_read_only = is(fault::allocate_read_only);
        if (is(fault::allocate_leaks)) ++library::live;
        return a;
    }
    static stream_token ready_on(array const& a) {
        if (a.device == cpu || is(fault::ready_always)) return already_ready;
        if (is(fault::ready_nowhere)) return {};
        if (is(fault::ready_on_null)) return library::stream_of(a.device, 0);
        if (is(fault::ready_elsewhere)) return library::stream_of(a.device, 0x660);
        if (is(fault::ready_on_other_family)) return stream_token::native(device_type::vpi, 0x550);
        return a.ready_on;
    }
    static stream_token current_stream(device d) {
        if (is(fault::current_on_null)) return library::stream_of(d, 0);
        if (is(fault::current_on_other_family)) return stream_token::native(device_type::vpi, 0x550);
        return library::stream_of(d, 0x770);
    }
};

namespace library {

/// The maker of the kit's arrays.
struct maker {
    array operator()(ferry::shape_view shape, ferry::data_type type) const {
        return make(shape, type, compact(shape), 0);
    }
    array strided(ferry::shape_view shape) const {  // column-major, every second element, from the fifth
        std::vector<std::int64_t> steps;
        std::int64_t step = 2;
        for (auto const extent : shape) steps.push_back(std::exchange(step, step * extent));
        return make(shape, ferry::dtype_of<float>, std::move(steps), 4);
    }
    array read_only(ferry::shape_view shape) const {
        auto a = (*this)(shape, ferry::dtype_of<float>);
        a.is_read_only = true;
        return a;
    }
    long long live() const { return library::live; }

   private:
    static array make(ferry::shape_view shape, ferry::data_type type, std::vector<std::int64_t> steps,
                      std::int64_t offset) {
        array a;
        auto const correct = std::exchange(now, fault::none);  // faults apply to the adapter only
        a.owner = fresh(a.data);
        now = correct;
        a.offset = offset;
        a.type = type;
        a.shape.assign(shape.begin(), shape.end());
        a.strides = std::move(steps);
        ferry::tensor_view const v{static_cast<void*>(a.data), type, a.shape, a.strides};
        ferry::conformance::detail::for_each_element(v, [&](std::int64_t ordinal, std::int64_t at) {
            ferry::conformance::detail::write_number(type, a.data + offset * (ferry::bits_per_element(type) / 8) + at,
                                                     ordinal + 1);
            return true;
        });
        return a;
    }
};

}  // namespace library
