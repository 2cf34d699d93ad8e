// ferry: a non-owning view of a tensor, with the address and the layout of its elements.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/flags.hpp>
#include <ferry/base/result.hpp>
#include <ferry/fwd.hpp>
#include <ferry/tensor/detail/strides.hpp>
#include <ferry/tensor/layout.hpp>

#include <concepts>
#include <cstddef>
#include <source_location>
#include <type_traits>

namespace FERRY_NAMESPACE {

/// A non-owning view of a tensor: data, device, data type, shape, strides and flags.
///
/// Copyable, of fixed size. References data, shape and strides, which must outlive it (R7). Does not allocate.
///
/// The constructors do not check their arguments: `validate` checks foreign structs, and exports check the views of
/// adapters. A view does not access the data; call `as` for a typed view, which does.
class tensor_view {
   public:
    /// Constructs a view of rank 0 with null data.
    constexpr tensor_view() = default;

    /// Constructs a view of elements of a C++ type.
    ///
    /// \param data     address of the first element; `T const*` makes the view read-only (R11)
    /// \param shape    extents
    /// \param strides  strides in elements; without them the elements are compact row-major
    /// \param dev      device of the data
    template <element T>
    constexpr tensor_view(T* data, shape_view shape FERRY_LIFETIME_BOUND,
                          strides_view strides FERRY_LIFETIME_BOUND = {}, ferry::device dev = cpu) noexcept
        : tensor_view(const_cast<std::remove_const_t<T>*>(data), dtype_of<T>, shape, strides, dev,
                      std::is_const_v<T> ? flags::read_only : flags::none) {}

    /// Constructs a view of elements of a type known at run time.
    ///
    /// \param data     address of the first element; a pointer to const makes the view read-only (R11)
    /// \param type     data type
    /// \param shape    extents
    /// \param strides  strides in elements; without them the elements are compact row-major
    /// \param dev      device of the data
    /// \param bits     flags; exports ignore flags::is_copied
    /// \param offset   offset of the first element from `data`, in bytes; added to `data` if that is an address, and
    ///                 stored separately if it is a handle (R23)
    constexpr tensor_view(void* data, data_type type, shape_view shape FERRY_LIFETIME_BOUND,
                          strides_view strides FERRY_LIFETIME_BOUND = {}, ferry::device dev = cpu,
                          ferry::flags bits = ferry::flags::none, std::uint64_t offset = 0) noexcept
        : data_{data},
          byte_offset_{offset},
          shape_{shape},
          strides_{strides},
          device_{dev},
          dtype_{type},
          flags_{bits} {
        if (offset != 0) fold_offset();
    }
    constexpr tensor_view(void const* data, data_type type, shape_view shape FERRY_LIFETIME_BOUND,
                          strides_view strides FERRY_LIFETIME_BOUND = {}, ferry::device dev = cpu,
                          ferry::flags bits = ferry::flags::none, std::uint64_t offset = 0) noexcept
        : tensor_view{const_cast<void*>(data), type, shape, strides, dev, bits | ferry::flags::read_only, offset} {}

    template <class T>
        requires(!element<T> && !std::is_void_v<T>)
    // clang-format off
    tensor_view(T*, shape_view, strides_view = {}, ferry::device = cpu) FERRY_DELETED("this element type has no data type: specialise ferry::dtype_traits<T>, or pass a ferry::data_type after the pointer");
    // clang-format on
    template <class T>
        requires(std::is_void_v<T>)
    tensor_view(T*, shape_view, strides_view = {}, ferry::device = cpu) FERRY_DELETED("a void* has no data type: pass a ferry::data_type after the pointer");
    template <class T, class Device>
        requires(!std::convertible_to<Device const&, ferry::device>)
    tensor_view(T*, shape_view, strides_view, Device const&) FERRY_DELETED("the device is not a ferry::device: convert it, for example to ferry::device{ferry::device_type::cuda, id}");

    template <int MaxRank>
    // clang-format off
    tensor_view(inplace_view<MaxRank> const&&) FERRY_DELETED("the temporary inplace_view contains the extents: bind it to a tensor_view const&, or store it in an auto variable");
    template <int MaxRank>
    tensor_view& operator=(inplace_view<MaxRank> const&&) FERRY_DELETED("the temporary inplace_view contains the extents: bind it to a tensor_view const&, or store it in an auto variable");
    // The object may be the base of another inplace_view, which would then reference the extents of this one.
    template <int MaxRank>
    tensor_view& operator=(inplace_view<MaxRank> const&) FERRY_DELETED("the assigned view would reference the extents in the inplace_view: assign ferry::tensor_view{view}, or make both views an inplace_view");
    // clang-format on

    /// Constructs a view of a struct, which `validate` must have checked. If the data is an address, adds the byte
    /// offset to it (R23).
    ///
    /// \param t     tensor
    /// \param bits  flags of the struct
    constexpr tensor_view(DLTensor const& t, ferry::flags bits) noexcept
        : data_{t.data},
          byte_offset_{t.byte_offset},
          shape_{t.shape, t.ndim},
          strides_{t.strides, t.strides != nullptr ? t.ndim : 0},
          device_{t.device},
          dtype_{t.dtype},
          flags_{known(bits)} {
        if (byte_offset_ != 0) fold_offset();
    }

    /// Returns the address of the first element, or the handle of the memory; see `is_addressable`. In memory
    /// that a handle identifies, the first element is at `byte_offset()`.
    [[nodiscard]] constexpr void const* data() const noexcept { return data_; }
    /// Returns the same address or handle as `data()`, for write access (R11, R29).
    ///
    /// \return       address or handle; `try_writable_data` returns that value or the error
    /// \throws error  errc::read_only when the view is read-only; errc::strides when a stride of 0 repeats elements
#if FERRY_HAS_EXCEPTIONS
    [[nodiscard]] constexpr void* writable_data(std::source_location where = std::source_location::current()) const {
        static_cast<void>(check_writable({"ferry::tensor_view::writable_data", where}));
        return data_;
    }
#endif
    [[nodiscard]] result<void*> try_writable_data(std::source_location where = std::source_location::current()) const {
        detail::record to{"ferry::tensor_view::writable_data", where};
        if (!check_writable(to)) return to.outcome.error();
        return data_;
    }
    /// Returns the offset of the first element in bytes; 0 unless the data is a handle.
    [[nodiscard]] constexpr std::uint64_t byte_offset() const noexcept { return byte_offset_; }
    /// Returns the data type.
    [[nodiscard]] constexpr data_type dtype() const noexcept { return dtype_; }
    /// Returns the device of the data.
    [[nodiscard]] constexpr ferry::device device() const noexcept { return device_; }
    /// Returns the number of dimensions.
    [[nodiscard]] constexpr int rank() const noexcept { return shape_.rank(); }
    /// Returns the extents.
    [[nodiscard]] constexpr shape_view shape() const noexcept { return shape_; }
    /// Returns the extent of a dimension.
    ///
    /// \param i  dimension; not checked
    /// \return   extent
    [[nodiscard]] constexpr std::int64_t extent(int i) const noexcept { return shape_[i]; }
    /// Returns the strides in elements; implicit for a compact row-major view without a list of strides.
    [[nodiscard]] constexpr strides_view strides() const noexcept { return strides_; }
    /// Returns the stride of a dimension; computes it if the strides are implicit.
    ///
    /// \param i  dimension; not checked
    /// \return   stride in elements
    [[nodiscard]] constexpr std::int64_t stride(int i) const noexcept { return detail::stride_of(shape_, strides_, i); }

    /// Returns the flags.
    [[nodiscard]] constexpr ferry::flags flags() const noexcept { return flags_; }
    /// Returns whether the data must not be written (R11).
    [[nodiscard]] constexpr bool is_read_only() const noexcept { return has(flags_, ferry::flags::read_only); }
    /// Returns whether elements may be written: the view is not read-only (R11), and no stride of 0 repeats an element
    /// (R29).
    [[nodiscard]] constexpr bool is_writable() const noexcept {
        return !is_read_only() && detail::repeated_dimension(shape_, strides_) < 0;
    }
    /// Returns whether the memory was allocated for the exchange (R12).
    [[nodiscard]] constexpr bool is_copied() const noexcept { return has(flags_, ferry::flags::is_copied); }
    /// Returns whether sub-byte elements are padded to whole bytes (R13).
    [[nodiscard]] constexpr bool is_padded() const noexcept { return has(flags_, ferry::flags::subbyte_padded); }

    /// Returns the number of elements: 1 for rank 0, and 0 on overflow, which `validate` rejects (R32).
    [[nodiscard]] constexpr std::int64_t size() const noexcept {
        std::int64_t count = 0;
        static_cast<void>(element_count(shape_, count));
        return count;
    }
    /// Returns the size in bytes of the elements in a compact layout (R19).
    [[nodiscard]] constexpr std::int64_t nbytes() const noexcept {
        std::int64_t bytes = 0;
        static_cast<void>(byte_count(size(), dtype_, is_padded(), bytes));
        return bytes;
    }
    /// Returns whether there are no elements, because an extent is 0.
    [[nodiscard]] constexpr bool is_empty() const noexcept {
        for (auto const extent : shape_)
            if (extent == 0) return true;
        return false;
    }

    /// Returns whether the elements are compact and in the given order. Ignores the strides of dimensions of extent 1
    /// (R27) and of empty tensors (R26).
    ///
    /// \param order  order; without it, row-major
    /// \return       true if the elements have that order, and for contiguity::any
    [[nodiscard]] constexpr bool is_contiguous(contiguity order = contiguity::row_major) const noexcept {
        if (order == contiguity::any) return true;
        if (order == contiguity::either)
            return is_contiguous(contiguity::row_major) || is_contiguous(contiguity::column_major);
        bool const is_row_major = order == contiguity::row_major;
        if (strides_.is_implicit() && is_row_major) return true;
        if (!detail::has_strides(shape_, strides_)) return false;
        std::int64_t step = 1;
        for (int k = 0; k < rank(); ++k) {
            int const i = is_row_major ? rank() - 1 - k : k;
            auto const extent = shape_[i];
            if (extent == 0) return true;
            if (extent != 1 && stride(i) != step) return is_empty();
            step = detail::compact_step(step, extent);
        }
        return true;
    }

    /// Returns a read-only view of the same tensor (D3).
    [[nodiscard]] constexpr tensor_view as_read_only() const noexcept {
        auto copy = *this;
        copy.flags_ |= ferry::flags::read_only;
        return copy;
    }
    /// Returns a view of the same memory, with another device and other flags.
    ///
    /// \param dev   device of the new view
    /// \param bits  flags of the new view
    /// \return      view
    [[nodiscard]] constexpr tensor_view with_device(ferry::device dev, ferry::flags bits) const noexcept {
        auto copy = *this;
        copy.device_ = dev;
        copy.flags_ = bits;
        return copy;
    }

    /// Returns whether two views have the same data, byte offset, data type, device, flags, extents and strides.
    /// Ignores the strides of dimensions of extent 1 (R27) and of empty tensors (R26). Implicit strides equal compact
    /// row-major ones (R24). Does not compare the elements.
    friend constexpr bool operator==(tensor_view const& a, tensor_view const& b) noexcept {
        if (a.data_ != b.data_ || a.byte_offset_ != b.byte_offset_ || a.dtype_ != b.dtype_ || a.device_ != b.device_ ||
            a.flags_ != b.flags_ || a.shape_ != b.shape_)
            return false;
        if (a.strides_ == b.strides_ || a.is_empty()) return true;
        if (!detail::has_strides(a.shape_, a.strides_) || !detail::has_strides(b.shape_, b.strides_)) return false;
        for (int i = 0; i < a.rank(); ++i)
            if (a.extent(i) != 1 && a.stride(i) != b.stride(i)) return false;
        return true;
    }

   private:
    [[nodiscard]] constexpr bool check_writable(detail::reporter r) const {
        if (is_read_only())
            return report(r, errc::read_only,
                          "the tensor is read-only (R11): call data(), or request a copy with copy_policy::always");
        int const i = detail::repeated_dimension(shape_, strides_);
        if (i < 0) return true;
        return detail::report_repetition(i, "call data(), or request a copy with copy_policy::always", r);
    }

    /// Adds the byte offset to the data if it is an address.
    constexpr void fold_offset() noexcept {
        if (!is_addressable(device_.type)) return;
        if (data_ != nullptr) data_ = static_cast<std::byte*>(data_) + byte_offset_;
        byte_offset_ = 0;
    }

    void* data_ = nullptr;
    std::uint64_t byte_offset_ = 0;
    shape_view shape_;
    strides_view strides_;
    ferry::device device_;
    data_type dtype_;
    ferry::flags flags_ = ferry::flags::none;
};

namespace detail {

/// Returns the address as a `void*`, even of a read-only view, for structs and functions that do not use const.
[[nodiscard]] constexpr void* untyped_data(tensor_view const& v) noexcept { return const_cast<void*>(v.data()); }

}  // namespace detail

}  // namespace FERRY_NAMESPACE
