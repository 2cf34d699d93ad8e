// ferry: a borrowed tensor: where its elements are and how they are laid out.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/dtype.hpp>
#include <ferry/base/flags.hpp>
#include <ferry/base/shape.hpp>

#include <cstdint>
#include <type_traits>

namespace ferry::inline v0 {

/// A tensor that somebody else owns: data, device, data type, shape, strides, flags. A regular value of fixed size that
/// allocates nothing; it borrows data, shape and strides, which must outlive it (R7). Copying is thread-safe as for any
/// value.
///
/// A view is a description, taken at its word: foreign ones pass `validate` first, and those of adapters are checked
/// where they are exported. It never reads the data; typed_view does, once type, rank and access are known.
class tensor_view {
   public:
    /// No tensor: rank 0 and no data.
    constexpr tensor_view() = default;

    /// Elements of a C++ type on the host or, with `where`, elsewhere. `T const*` makes the view read-only (R11).
    /// Without strides the elements are compact row-major. Lists of extents and strides are borrowed.
    template <element T>
    constexpr tensor_view(T* data, shape_view shape, strides_view strides = {}, ferry::device where = cpu) noexcept
        : tensor_view(const_cast<std::remove_const_t<T>*>(data), dtype_of<T>, shape, strides, where,
                      std::is_const_v<T> ? flags::read_only : flags::none) {}

    /// Elements of a type known at run time; flags::is_copied is an exchange's to set and is ignored here.
    constexpr tensor_view(void* data, data_type type, shape_view shape, strides_view strides = {},
                          ferry::device where = cpu, ferry::flags bits = ferry::flags::none) noexcept
        : data_{data}, shape_{shape}, strides_{strides}, device_{where}, dtype_{type}, flags_{bits} {}
    constexpr tensor_view(void const* data, data_type type, shape_view shape, strides_view strides = {},
                          ferry::device where = cpu, ferry::flags bits = ferry::flags::none) noexcept
        : tensor_view{const_cast<void*>(data), type, shape, strides, where, bits | ferry::flags::read_only} {}

    /// What a foreign struct says, unchecked: `validate` first. Folds the byte offset where `data` is an address (R23).
    constexpr tensor_view(DLTensor const& t, ferry::flags bits) noexcept
        : data_{t.data},
          byte_offset_{t.byte_offset},
          shape_{t.shape, t.ndim},
          strides_{t.strides, t.strides != nullptr ? t.ndim : 0},
          device_{t.device},
          dtype_{t.dtype},
          flags_{known(bits)} {
        if (is_addressable(device_.type)) {
            if (data_ != nullptr) data_ = static_cast<std::byte*>(data_) + byte_offset_;
            byte_offset_ = 0;
        }
    }

    /// The first element; on devices whose data is a handle, the handle, with `byte_offset()` beside it.
    [[nodiscard]] constexpr void* data() const noexcept { return data_; }
    /// 0 unless the device's data is a handle.
    [[nodiscard]] constexpr std::uint64_t byte_offset() const noexcept { return byte_offset_; }
    [[nodiscard]] constexpr data_type dtype() const noexcept { return dtype_; }
    [[nodiscard]] constexpr ferry::device device() const noexcept { return device_; }
    [[nodiscard]] constexpr int rank() const noexcept { return shape_.rank(); }
    [[nodiscard]] constexpr shape_view shape() const noexcept { return shape_; }
    [[nodiscard]] constexpr std::int64_t extent(int i) const noexcept { return shape_[i]; }
    /// Implicit (compact row-major) when the view has none of its own.
    [[nodiscard]] constexpr strides_view strides() const noexcept { return strides_; }
    /// The stride of dimension `i` in elements, computed when the strides are implicit.
    [[nodiscard]] constexpr std::int64_t stride(int i) const noexcept {
        if (!strides_.is_implicit()) return strides_[i];
        std::int64_t step = 1;
        for (int k = rank(); --k > i;) step = detail::compact_step(step, shape_[k]);
        return step;
    }

    [[nodiscard]] constexpr ferry::flags flags() const noexcept { return flags_; }
    [[nodiscard]] constexpr bool is_read_only() const noexcept { return has(flags_, ferry::flags::read_only); }
    [[nodiscard]] constexpr bool is_copied() const noexcept { return has(flags_, ferry::flags::is_copied); }
    /// Whether sub-byte elements take whole bytes (R13).
    [[nodiscard]] constexpr bool is_padded() const noexcept { return has(flags_, ferry::flags::subbyte_padded); }

    /// The number of elements; 1 for rank 0. 0 where it cannot be counted, which `validate` refuses (R32).
    [[nodiscard]] constexpr std::int64_t size() const noexcept {
        std::int64_t count = 0;
        static_cast<void>(element_count(shape_, count));
        return count;
    }
    /// The bytes of the elements laid out compactly (R19).
    [[nodiscard]] constexpr std::int64_t nbytes() const noexcept {
        std::int64_t bytes = 0;
        static_cast<void>(byte_count(size(), dtype_, is_padded(), bytes));
        return bytes;
    }
    /// Whether it has no elements: an extent is 0.
    [[nodiscard]] constexpr bool is_empty() const noexcept {
        for (auto const extent : shape_)
            if (extent == 0) return true;
        return false;
    }

    /// Whether the elements lie one after the other in row-major order. Strides of dimensions of extent 1 do not count
    /// (R27), nor any in an empty tensor (R26).
    [[nodiscard]] constexpr bool is_contiguous() const noexcept {
        if (strides_.is_implicit()) return true;
        if (strides_.rank() != rank()) return false;
        std::int64_t step = 1;
        for (int i = rank(); i-- > 0;) {
            auto const extent = shape_[i];
            if (extent == 0) return true;
            if (extent != 1 && strides_[i] != step) return is_empty();
            step = detail::compact_step(step, extent);
        }
        return true;
    }

    /// The same tensor, not to be written through (D3).
    [[nodiscard]] constexpr tensor_view as_read_only() const noexcept {
        auto copy = *this;
        copy.flags_ |= ferry::flags::read_only;
        return copy;
    }
    /// The same memory under other flags or as seen from another device; for exchanges.
    [[nodiscard]] constexpr tensor_view relabelled(ferry::device where, ferry::flags bits) const noexcept {
        auto copy = *this;
        copy.device_ = where;
        copy.flags_ = bits;
        return copy;
    }

   private:
    void* data_ = nullptr;
    std::uint64_t byte_offset_ = 0;
    shape_view shape_;
    strides_view strides_;
    ferry::device device_;
    data_type dtype_;
    ferry::flags flags_ = ferry::flags::none;
};

}  // namespace ferry::inline v0
