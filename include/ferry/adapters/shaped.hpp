// ferry: extents and strides beside arrays of libraries that keep none which ferry could borrow.
#pragma once

#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/shape.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/array_traits.hpp>
#include <ferry/tensor/view.hpp>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <type_traits>
#include <utility>

namespace ferry::inline v0 {

/// How the arrays of a library lie; the adapter headers specialise it.
///
/// - `max_rank`
/// - `int describe(Owner const&, std::int64_t* extents, std::int64_t* strides)`: writes both, in elements, and gives
/// the rank
/// - `data_type dtype(Owner const&)`
/// - `data(Owner&)`, `data(Owner const&)`: the first element, where the array is now; a pointer to const is read-only
/// - `is_handle`: whether copies share the elements
/// - `owns`: false where the elements belong to another object, as those of a std::span do (D13)
/// - `device where(Owner const&)`: where the elements are; without it on the host
/// - `stream_token ready_on(Owner const&)`: for elements off the host that are handles, as `array_traits` has it
template <class Owner>
struct shaped_traits;

/// It has a header in ferry/adapters. Not required: that it can be copied.
template <class Owner>
concept laid_out = requires(Owner const& a, std::int64_t* list) {
    { shaped_traits<Owner>::describe(a, list, list) } -> std::same_as<int>;
    { shaped_traits<Owner>::dtype(a) } -> std::same_as<data_type>;
};

/// An array of another library with its extents and strides, which views borrow: std::vector and Eigen keep sizes of
/// other types, OpenCV counts steps in bytes. Owns the array, or is one more handle to it; move it into to_dlpack, or
/// borrow it. A handle that owns nothing, to a std::span, is copied by to_dlpack or kept as an lvalue (D13). The array
/// must keep its shape while it is in here; elements may be written. As thread-safe as the array.
template <laid_out Owner>
class shaped {
    using layout = shaped_traits<Owner>;

   public:
    /// \throws  what the library's layout cannot say in DLPack
    explicit shaped(Owner owner) : owner_(std::move(owner)), rank_{layout::describe(owner_, extents_, strides_)} {}

    /// The elements of a one-dimensional container in row-major order under another shape.
    /// \throws error  errc::shape when it has more or fewer elements;  errc::rank
    shaped(Owner owner, std::initializer_list<std::int64_t> extents,
           std::source_location where = std::source_location::current())
        requires(shaped_traits<Owner>::is_flat)
        : shaped{std::move(owner), shape_view{extents.begin(), static_cast<int>(extents.size())}, where} {}
    shaped(Owner owner, shape_view extents, std::source_location where = std::source_location::current())
        requires(shaped_traits<Owner>::is_flat)
        : owner_(std::move(owner)), rank_{extents.rank()} {
        layout::describe(owner_, extents_, strides_);
        std::int64_t count = 0;
        if (rank_ > layout::max_rank)
            detail::fail(errc::rank, "ferry::shaped", message{"rank "} << rank_ << " is more than " << layout::max_rank,
                         where);
        if (!element_count(extents, count) || count != extents_[0])
            detail::fail(errc::shape, "ferry::shaped",
                         message{"the container has "} << extents_[0] << " elements and the shape " << count
                                                       << ": they must be as many",
                         where);
        for (int i = 0; i < rank_; ++i) extents_[i] = extents[i];
        fill_compact_strides(extents, strides_);
    }

    [[nodiscard]] Owner& get() noexcept { return owner_; }
    [[nodiscard]] Owner const& get() const noexcept { return owner_; }

    /// \return  the tensor, which borrows extents and strides from this object
    /// \throws  what the library's `where` throws
    [[nodiscard]] tensor_view ferry_view() & {
        return {layout::data(owner_), layout::dtype(owner_), {extents_, rank_}, {strides_, rank_}, place()};
    }
    [[nodiscard]] tensor_view ferry_view() const& {
        return {layout::data(owner_), layout::dtype(owner_), {extents_, rank_}, {strides_, rank_}, place()};
    }
    tensor_view ferry_view() const&& FERRY_DELETED("the view would outlive its extents: keep the array in a variable");

   private:
    [[nodiscard]] device place() const {
        if constexpr (requires { layout::where(owner_); }) return layout::where(owner_);
        else return cpu;
    }

    Owner owner_;
    std::int64_t extents_[layout::max_rank] = {}, strides_[layout::max_rank] = {};
    int rank_ = 0;
};

namespace detail {

template <class Owner>
struct ownership_of_shaped {};
template <class Owner>
    requires requires { shaped_traits<Owner>::owns; }
struct ownership_of_shaped<Owner> {
    static constexpr bool owns = shaped_traits<Owner>::owns;
};

template <class Owner>
struct readiness_of_shaped {};
template <class Owner>
    requires requires(Owner const& a) { shaped_traits<Owner>::ready_on(a); }
struct readiness_of_shaped<Owner> {
    static stream_token ready_on(shaped<Owner> const& a) { return shaped_traits<Owner>::ready_on(a.get()); }
};

}  // namespace detail

/// A second handle, where the library's copies are handles.
template <class Owner>
    requires(shaped_traits<Owner>::is_handle &&
             !requires(managed_tensor m) { shaped_traits<Owner>::adopt(std::move(m)); })
struct array_traits<shaped<Owner>> : detail::readiness_of_shaped<Owner>, detail::ownership_of_shaped<Owner> {
    static shaped<Owner> share(shaped<Owner> const& a) { return a; }
};

/// And both ways, where the library can keep a foreign owner.
template <class Owner>
    requires(shaped_traits<Owner>::is_handle &&
             requires(managed_tensor m) { shaped_traits<Owner>::adopt(std::move(m)); })
struct array_traits<shaped<Owner>> {
    static shaped<Owner> share(shaped<Owner> const& a) { return a; }
    static shaped<Owner> adopt(managed_tensor m) { return shaped<Owner>{shaped_traits<Owner>::adopt(std::move(m))}; }
    static shaped<Owner> allocate(data_type type, shape_view shape, device where) {
        return shaped<Owner>{shaped_traits<Owner>::allocate(type, shape, where)};
    }
};

}  // namespace ferry::inline v0
