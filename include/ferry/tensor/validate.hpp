// ferry: validation of foreign structs, which every import performs before it uses their fields (D2).
#pragma once

#include <ferry/tensor/detail/ordinary.hpp>
#include <ferry/tensor/view.hpp>

namespace FERRY_NAMESPACE {
namespace detail {

[[nodiscard]] FERRY_COLD inline bool report_version(version v, reporter r) {
    return report(r, errc::version,
                  message{"the tensor has DLPack version "}
                      << v.major << "." << v.minor
                      << ", whose ABI differs, expected 1.x (R2): request max_version=(1, 3) from the producer");
}

/// Rejects other major versions, because only `version` and `deleter` of such a struct may be accessed (R2).
[[nodiscard]] inline bool check_version(version v, reporter r) {
    if (v.major == version::current.major) return true;
    return report_version(v, r);
}

/// Rejects unknown device types (R3, R34), and negative ids of device types with ids (R35, R36).
[[nodiscard]] FERRY_COLD inline bool check_device(device d, reporter r) {
    if (!is_known(d.type))
        return report(r, errc::device,
                      message{"device type "}
                          << static_cast<int>(d.type)
                          << " is not one that DLPack defines (R3, R34): copy the tensor to the CPU first");
    if (d.id < 0 && !ignores_id(d.type))
        return report(r, errc::device,
                      message{"the device id of "} << name(d.type) << " is " << d.id
                                                   << ", expected 0 or greater (R36): correct it in the producer");
    return true;
}

/// Rejects unknown and malformed data types (R3, R16–R18).
[[nodiscard]] FERRY_COLD inline bool check_dtype(data_type t, reporter r) {
    if (is_valid(t)) return true;
    message text{"dtype "};
    text << t << " is unknown or malformed";
    switch (t.code) {
        case type_code::float6_e2m3fn:
        case type_code::float6_e3m2fn: text << ": FP6 must have 6 bits (R18)"; break;
        case type_code::float4_e2m1fn: text << ": FP4 must have 4 bits (R18)"; break;
        case type_code::bool_: text << ": bool must have 8 bits (R17)"; break;
        default: text << " (R3, R16)";
    }
    return report(r, errc::dtype, text << ": view the data as uint8 in the producer");
}

/// The distances in bytes from the address of the first element to both ends of the memory that the elements occupy.
struct byte_reach {
    std::uint64_t below = 0;  ///< to the start of the element with the lowest address
    std::uint64_t above = 0;  ///< to the end of the element with the highest address
};

/// Checks rank, extents, and the number of elements and bytes (R25, R32). Sets `count` to the number of elements, and
/// `reach` to the reach of compact elements.
[[nodiscard]] FERRY_COLD inline bool check_shape(DLTensor const& t, data_type type, bool padded, std::int64_t& count,
                                                 byte_reach& reach, reporter r) {
    if (t.ndim < 0)
        return report(r, errc::rank, message{"ndim is "} << t.ndim << ", expected at least 0 (R32): correct the array");
    if (t.ndim > 0 && t.shape == nullptr)
        return report(r, errc::shape,
                      message{"shape is NULL with ndim "} << t.ndim << ", expected extents (R25, R32): pass the shape");
    for (int i = 0; i < t.ndim; ++i) {
        if (t.shape[i] < 0)
            return report(r, errc::shape,
                          message{"shape["} << i << "] is " << t.shape[i]
                                            << ", expected at least 0 (R32): correct the shape in the producer");
    }
    std::int64_t bytes = 0;
    if (!element_count({t.shape, t.ndim}, count) || !byte_count(count, type, padded, bytes))
        return report(r, errc::overflow,
                      "the product of the extents, in bytes, exceeds 63 bits (R32): correct the shape in the producer");
    reach = {0, static_cast<std::uint64_t>(bytes)};
    return true;
}

/// Computes the reach of elements with explicit strides. Dimensions of extent 1 do not count (R27). Returns false when
/// a distance in bits does not fit in std::int64_t (R32).
[[nodiscard]] constexpr bool find_reach(shape_view shape, strides_view strides, data_type type, bool padded,
                                        byte_reach& reach) noexcept {
    std::int64_t lowest = 0, highest = 0, step = 0;
    for (int i = 0; i < shape.rank(); ++i) {
        if (shape[i] == 1) continue;
        if (!checked_multiply(shape[i] - 1, strides[i], step) ||
            !checked_add(step < 0 ? lowest : highest, step, step < 0 ? lowest : highest))
            return false;
    }
    std::int64_t const bits = bits_per_element(type, padded);
    if (!checked_multiply(lowest, bits, lowest) || !checked_add(highest, std::int64_t{1}, highest) ||
        !checked_multiply(highest, bits, highest))
        return false;
    reach = {(0 - static_cast<std::uint64_t>(lowest) + 7) / 8, (static_cast<std::uint64_t>(highest) + 7) / 8};
    return true;
}

/// Checks that the reach of the elements fits in 63 bits, and sets `reach` (R24, R32). Negative strides (R28) and
/// strides of 0 (R29) are allowed. Strides of empty tensors are ignored (R26).
[[nodiscard]] FERRY_COLD inline bool check_strides(DLTensor const& t, std::int64_t count, data_type type, bool padded,
                                                   byte_reach& reach, reporter r) {
    if (t.strides == nullptr || count == 0) return true;
    if (!find_reach({t.shape, t.ndim}, {t.strides, t.ndim}, type, padded, reach))
        return report(
            r, errc::overflow,
            "the distance between elements, in bits, exceeds 63 bits (R32): correct shape or strides in the producer");
    return true;
}

/// Checks that data is not NULL, unless the tensor is empty (R26), and that the byte offset and all elements lie within
/// the address space (R23, R32).
[[nodiscard]] FERRY_COLD inline bool check_data(DLTensor const& t, std::int64_t count, byte_reach reach, reporter r) {
    if (t.data == nullptr && count != 0)
        return report(r, errc::null_data,
                      message{"data is NULL, expected the address of "}
                          << count << " elements (R26): allocate the data before the export");
    if (!is_addressable(device{t.device}.type)) return true;
    std::uint64_t address = reinterpret_cast<std::uintptr_t>(t.data);
    if (!checked_add(address, t.byte_offset, address) || address > UINTPTR_MAX)
        return report(r, errc::overflow,
                      message{"byte_offset is "}
                          << t.byte_offset
                          << ", beyond the end of the address space (R23, R32): set data to the address of the first "
                             "element, and byte_offset to 0");
    bool const before = reach.below > address;
    if (before || (reach.above != 0 && reach.above - 1 > UINTPTR_MAX - address))
        return report(r, errc::overflow,
                      message{"data is "}
                          << address << ", and shape and strides place elements "
                          << (before ? "before the start" : "beyond the end")
                          << " of the address space (R23, R32): correct data, shape or strides in the producer");
    return true;
}

/// Performs all checks, and sets `reach` to the reach of the elements.
[[nodiscard]] FERRY_COLD inline bool examine(DLTensor const& t, bool padded, byte_reach& reach, reporter r) {
    data_type const type{t.dtype};
    std::int64_t count = 0;
    return check_device(device{t.device}, r) && check_dtype(type, r) && check_shape(t, type, padded, count, reach, r) &&
           check_strides(t, count, type, padded, reach, r) && check_data(t, count, reach, r);
}

/// Validates a struct that is not both ordinary and compact. `ordinary` is the result of is_ordinary.
[[nodiscard]] FERRY_NOINLINE inline bool check_other(DLTensor const& t, bool ordinary, flags bits, reporter r) {
    if (ordinary && is_strided(t)) return true;
    byte_reach reach;
    return examine(t, has(bits, flags::subbyte_padded), reach, r);
}

/// Validates a struct.
[[nodiscard]] inline bool check_tensor(DLTensor const& t, flags bits, reporter r) {
    bool const ordinary = is_ordinary(t);
    if (ordinary && is_compact(t)) [[likely]]
        return true;
    return check_other(t, ordinary, bits, r);
}

/// Validates a struct. Not inlined, so that one copy serves callers for which the size of the code is more important
/// than the duration of a call.
[[nodiscard]] FERRY_NOINLINE inline bool check_tensor_by_call(DLTensor const& t, flags bits, reporter r) {
    return check_tensor(t, bits, r);
}

/// Validates a foreign managed struct. Takes a pointer, because a reference to a struct of another major version, which
/// may be smaller than DLManagedTensorVersioned, would not be valid (R2).
template <bool ByCall = false>
[[nodiscard]] inline bool check_managed(DLManagedTensorVersioned const* t, reporter r) {
    if (!check_version({t->version.major, t->version.minor}, r)) return false;
    auto const bits = known(flags{t->flags});
    return ByCall ? check_tensor_by_call(t->dl_tensor, bits, r) : check_tensor(t->dl_tensor, bits, r);
}

}  // namespace detail

/// Validates a DLTensor: device, data type, rank, extents, overflow, strides and data (R3, R16–R32).
///
/// Reads the struct, its shape and its strides, not the data. Does not check the alignment (R31); `as` does. Cannot
/// check the size of the memory at `data`. Does not synchronise. Thread-safe.
///
/// \param t      tensor
/// \param bits   flags of the struct; none for a legacy struct
/// \param api    name of the public function, for errors; static storage
/// \return       `try_validate` returns success, or the error that `validate` throws
/// \throws error  errc::device, dtype, rank, shape, overflow or null_data, with the fault and the rule in the message
#if FERRY_HAS_EXCEPTIONS
inline void validate(DLTensor const& t, flags bits = flags::none, char const* api = "ferry::validate",
                     std::source_location where = std::source_location::current()) {
    static_cast<void>(detail::check_tensor(t, bits, {api, where}));
}
#endif
[[nodiscard]] inline result<> try_validate(DLTensor const& t, flags bits = flags::none,
                                           char const* api = "ferry::validate",
                                           std::source_location where = std::source_location::current()) {
    detail::record to{api, where};
    static_cast<void>(detail::check_tensor(t, bits, to));
    return to.outcome;
}

/// Validates a managed struct: first the version (R2), then the tensor. Does not call the deleter.
///
/// \param t      struct
/// \param api    name of the public function, for errors; static storage
/// \return       `try_validate` returns success, or the error that `validate` throws
/// \throws error  errc::version; errors of the overload for a DLTensor
#if FERRY_HAS_EXCEPTIONS
inline void validate(DLManagedTensorVersioned const& t, char const* api = "ferry::validate",
                     std::source_location where = std::source_location::current()) {
    static_cast<void>(detail::check_managed(&t, {api, where}));
}
#endif
[[nodiscard]] inline result<> try_validate(DLManagedTensorVersioned const& t, char const* api = "ferry::validate",
                                           std::source_location where = std::source_location::current()) {
    detail::record to{api, where};
    static_cast<void>(detail::check_managed(&t, to));
    return to.outcome;
}

namespace detail {

/// Reports a view that does not have one stride for each extent.
[[nodiscard]] FERRY_COLD inline bool report_stride_count(tensor_view const& v, reporter r) {
    return report(r, errc::strides,
                  message{"the view has "} << v.rank() << " extents but " << v.strides().rank()
                                           << " strides: pass one stride for each, or none for compact elements");
}

/// Returns whether a view has one stride for each extent, or none.
[[nodiscard]] constexpr bool has_strides(tensor_view const& v) noexcept { return has_strides(v.shape(), v.strides()); }

/// Converts a view to a DLTensor for `check_tensor`.
[[nodiscard]] FERRY_ALWAYS_INLINE DLTensor tensor_of(tensor_view const& v) noexcept {
    DLTensor t{};
    t.data = untyped_data(v);
    t.device = v.device().to_abi();
    t.ndim = v.rank();
    t.dtype = v.dtype().to_abi();
    t.shape = const_cast<std::int64_t*>(v.shape().data());
    t.strides = const_cast<std::int64_t*>(v.strides().data());
    return t;
}

/// Validates a view that an adapter or a caller passed.
[[nodiscard]] FERRY_ALWAYS_INLINE bool check_view(tensor_view const& v, reporter r) {
    return has_strides(v) ? check_tensor(tensor_of(v), v.flags(), r) : report_stride_count(v, r);
}
/// Validates a view like check_view. Not inlined; see check_tensor_by_call.
[[nodiscard]] FERRY_NOINLINE inline bool check_view_by_call(tensor_view const& v, reporter r) {
    return has_strides(v) ? check_tensor_by_call(tensor_of(v), v.flags(), r) : report_stride_count(v, r);
}

/// Returns whether a view is ordinary; `check_other_view` checks other views.
[[nodiscard]] FERRY_ALWAYS_INLINE bool is_ordinary_view(tensor_view const& v) noexcept {
    DLTensor const t = tensor_of(v);
    return has_strides(v) && is_ordinary(t);
}
/// Validates a view that is not both ordinary and compact. `ordinary` is the result of is_ordinary_view.
[[nodiscard]] FERRY_NOINLINE inline bool check_other_view(tensor_view const& v, bool ordinary, reporter r) {
    return has_strides(v) ? check_other(tensor_of(v), ordinary, v.flags(), r) : report_stride_count(v, r);
}

/// Validates a view, and sets `reach` to the reach of its elements.
[[nodiscard]] inline bool check_reach(tensor_view const& v, byte_reach& reach, reporter r) {
    return has_strides(v) ? examine(tensor_of(v), v.is_padded(), reach, r) : report_stride_count(v, r);
}
/// Returns the reach of the elements of a validated view that has elements.
[[nodiscard]] constexpr byte_reach reach_of(tensor_view const& v) noexcept {
    byte_reach reach{0, static_cast<std::uint64_t>(v.nbytes())};
    if (!v.strides().is_implicit())
        static_cast<void>(find_reach(v.shape(), v.strides(), v.dtype(), v.is_padded(), reach));
    return reach;
}

}  // namespace detail

}  // namespace FERRY_NAMESPACE
