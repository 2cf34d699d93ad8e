// ferry: requirements on a tensor that are known at run time.
#pragma once

#include <ferry/tensor/view.hpp>

namespace FERRY_NAMESPACE {

/// Requirements on a tensor. A member with its default value imposes no requirement:
/// `constraints{.dtype = dtype_of<float>, .rank = 2}` accepts any matrix of float32.
///
/// For requirements that are known at compile time, see `as`. Does not own `shape`. Does not allocate.
struct constraints {
    /// Default of `dtype`: any data type.
    static constexpr data_type any_dtype{type_code::int_, 0, 0};
    /// Value of an element of `shape` that accepts any extent.
    static constexpr std::int64_t any_extent = -1;
    /// Default of `device`: any device type.
    static constexpr device_type any_device{0};

    data_type dtype = any_dtype;         ///< data type
    int rank = dynamic_rank;             ///< number of dimensions; not used if `shape` is not empty
    shape_view shape{};                  ///< extents, each of which may be any_extent; empty accepts any shape
    device_type device = any_device;     ///< type of the device of the data
    contiguity order = contiguity::any;  ///< order of the elements
    bool is_writable = false;            ///< whether read-only (R11) and repeated elements (R29) are refused

    /// Returns whether a tensor meets the requirements. Does not validate the tensor; see `validate`.
    ///
    /// \param v  view
    /// \return   true if all requirements are met
    [[nodiscard]] constexpr bool matches(tensor_view const& v) const noexcept { return !first_mismatch(v).exists; }
    /// Checks that a tensor meets the requirements.
    ///
    /// \param v      view
    /// \return       nothing; `try_check` returns success or the error
    /// \throws error  errc::dtype, rank, shape, device, strides or read_only: the first requirement that is not met,
    ///                with the property of the tensor, the requirement and the fix in the message
#if FERRY_HAS_EXCEPTIONS
    constexpr void check(tensor_view const& v, std::source_location where = std::source_location::current()) const {
        if (auto const m = first_mismatch(v); m.exists)
            static_cast<void>(report_mismatch(m, v, {"ferry::constraints::check", where}));
    }
#endif
    [[nodiscard]] result<> try_check(tensor_view const& v,
                                     std::source_location where = std::source_location::current()) const {
        detail::record to{"ferry::constraints::check", where};
        if (auto const m = first_mismatch(v); m.exists) static_cast<void>(report_mismatch(m, v, to));
        return to.outcome;
    }

   private:
    struct mismatch {
        bool exists;
        errc code{};
        int dimension = -1;
    };

    [[nodiscard]] constexpr int required_rank() const noexcept { return shape.rank() != 0 ? shape.rank() : rank; }
    [[nodiscard]] constexpr mismatch first_mismatch(tensor_view const& v) const noexcept {
        if (dtype != any_dtype && v.dtype() != dtype) return {true, errc::dtype};
        if (required_rank() != dynamic_rank && v.rank() != required_rank()) return {true, errc::rank};
        for (int i = 0; i < shape.rank(); ++i)
            if (shape[i] != any_extent && v.extent(i) != shape[i]) return {true, errc::shape, i};
        if (device != any_device && v.device().type != device) return {true, errc::device};
        if (!v.is_contiguous(order)) return {true, errc::strides};
        if (is_writable && v.is_read_only()) return {true, errc::read_only};
        if (is_writable && !v.is_writable())
            return {true, errc::strides, detail::repeated_dimension(v.shape(), v.strides())};
        return {false};
    }
    [[nodiscard]] FERRY_COLD bool report_mismatch(mismatch m, tensor_view const& v, detail::reporter r) const {
        message text{};
        if (m.code == errc::strides && m.dimension >= 0)
            return detail::report_repetition(m.dimension, "request a copy with copy_policy::always", r);
        if (m.code == errc::dtype)
            text << "dtype is " << v.dtype() << ", expected " << dtype << ": convert the tensor";
        else if (m.code == errc::rank)
            text << "rank is " << v.rank() << ", expected " << required_rank() << ": reshape the tensor";
        else if (m.code == errc::shape)
            text << "shape[" << m.dimension << "] is " << v.extent(m.dimension) << ", expected " << shape[m.dimension]
                 << ": reshape or slice the tensor";
        else if (m.code == errc::device)
            text << "the data is on " << name(v.device().type) << ":" << v.device().id << ", expected " << name(device)
                 << ": copy the tensor to that device";
        else if (m.code == errc::strides)
            text << "the elements are not contiguous in "
                 << (order == contiguity::row_major      ? "row-major"
                     : order == contiguity::column_major ? "column-major"
                                                         : "row-major or column-major")
                 << " order: copy the tensor in that order";
        else
            text << "the tensor is read-only (R11): request a copy with copy_policy::always";
        return report(r, m.code, text);
    }
};

}  // namespace FERRY_NAMESPACE
