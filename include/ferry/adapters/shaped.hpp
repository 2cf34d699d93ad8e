// ferry: an array stored with its extents and strides, for libraries that do not store these as std::int64_t.
#pragma once

#include <ferry/base/detail/requires_exceptions.hpp>
#include <ferry/base/device.hpp>
#include <ferry/base/error.hpp>
#include <ferry/base/inplace_dims.hpp>
#include <ferry/base/shape.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/exchange/array_traits.hpp>
#include <ferry/tensor/view.hpp>

#include <concepts>
#include <cstdint>
#include <source_location>
#include <type_traits>
#include <utility>

namespace FERRY_NAMESPACE {

/// Describes the arrays of a library. The adapter headers specialise it.
///
/// Required members:
/// - `max_rank`: maximum rank
/// - `is_flat`: whether the type is a one-dimensional container, to which `shaped` can give another shape
/// - `is_handle`: whether copies share the elements
/// - `int describe(Owner const&, std::int64_t* extents, std::int64_t* strides)`: writes extents and strides, in
///   elements, and returns the rank
/// - `data_type dtype(Owner const&)`: data type
/// - `data(Owner&)`, `data(Owner const&)`: address of the first element; if it is a pointer to const, exports are
///   read-only
///
/// Optional members:
/// - `owns`: false when the elements belong to another object, as for a std::span (D13); or `bool owns(Owner const&)`,
///   when only some arrays own their elements
/// - `device device(Owner const&)`: device of the elements; host memory when absent
/// - `stream_token ready_on(Owner const&)`: as in `array_traits<T>`, for handles to device memory; may also return an
///   event
/// - `Owner adopt(managed_tensor)`, `Owner adopt(managed_tensor, stream_token)`,
///   `Owner allocate(data_type, shape_view, device)` and `Owner allocate(data_type, shape_view, device, stream_token)`:
///   as in `array_traits<T>`
template <class Owner>
struct shaped_traits;

/// A type with a specialisation of `shaped_traits`. The type need not be copyable.
template <class Owner>
concept has_shaped_traits = requires(Owner const& a, std::int64_t* list) {
    { shaped_traits<Owner>::describe(a, list, list) } -> std::same_as<int>;
    { shaped_traits<Owner>::dtype(a) } -> std::same_as<data_type>;
};

/// An array of another library, with extents and strides in the form that DLPack requires.
///
/// Use it for libraries that store sizes as another type (std::vector, Eigen) or strides in bytes (OpenCV). Owns the
/// array, or stores a handle to it, according to `shaped_traits<Owner>::is_handle`. Export it with to_dlpack or borrow.
/// The shape of the array must not change while this object exists; its elements may be written. As thread-safe as the
/// array.
///
/// An rvalue that stores a handle without ownership, such as a std::span, is not shared (D13). Pass it as an lvalue, or
/// pass a request that permits a copy.
template <has_shaped_traits Owner>
class shaped {
    using layout = shaped_traits<Owner>;

   public:
    /// Stores an array with its extents and strides.
    ///
    /// \param owner  array, or handle to it
    /// \throws error  errors of `shaped_traits<Owner>::describe`, for layouts that DLPack cannot express
    explicit shaped(Owner owner) : owner_(std::move(owner)), rank_{layout::describe(owner_, extents_, strides_)} {}

    /// Stores a one-dimensional container with another shape, in row-major order.
    ///
    /// \param owner    container
    /// \param extents  shape, as integers of any type; must have as many elements as the container
    /// \throws error  errc::shape when an extent is negative, or the product of the extents is not the size of the
    ///                container
    shaped(Owner owner, inplace_dims<shaped_traits<Owner>::max_rank> extents,
           std::source_location where = std::source_location::current())
        requires(shaped_traits<Owner>::is_flat)
        : owner_(std::move(owner)), rank_{extents.rank()} {
        layout::describe(owner_, extents_, strides_);
        std::int64_t count = 0;
        if (!element_count(extents, count))
            detail::fail(errc::shape, "ferry::shaped",
                         message{"an extent is negative, or the product of the extents exceeds 63 bits (R32): pass one "
                                 "extent for each dimension, with the size of the container as their product"},
                         where);
        if (count != extents_[0])
            detail::fail(errc::shape, "ferry::shaped",
                         message{"the shape has "} << count << " elements, expected " << extents_[0]
                                                   << ", the size of the container: pass extents with this product",
                         where);
        for (int i = 0; i < rank_; ++i) extents_[i] = extents[i];
        fill_compact_strides(extents, strides_);
    }

    /// Returns the array. Its shape must not be changed.
    [[nodiscard]] Owner& get() noexcept { return owner_; }
    [[nodiscard]] Owner const& get() const noexcept { return owner_; }

    /// Returns a view of the elements, which references this object for extents and strides.
    ///
    /// \return  view; read-only when the elements are const
    /// \throws error  errors of `shaped_traits<Owner>::device`
    [[nodiscard]] tensor_view ferry_view() & {
        return {layout::data(owner_), layout::dtype(owner_), {extents_, rank_}, {strides_, rank_}, place()};
    }
    [[nodiscard]] tensor_view ferry_view() const& {
        return {layout::data(owner_), layout::dtype(owner_), {extents_, rank_}, {strides_, rank_}, place()};
    }
    tensor_view ferry_view() const&& FERRY_DELETED("the view would outlive its extents: store the array in a variable");

   private:
    [[nodiscard]] device place() const {
        if constexpr (requires { layout::device(owner_); }) return layout::device(owner_);
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
    requires std::same_as<decltype(shaped_traits<Owner>::owns), bool const>
struct ownership_of_shaped<Owner> {
    static constexpr bool owns = shaped_traits<Owner>::owns;
};
template <class Owner>
    requires requires(Owner const& a) {
        { shaped_traits<Owner>::owns(a) } -> std::same_as<bool>;
    }
struct ownership_of_shaped<Owner> {
    static bool owns(shaped<Owner> const& a) { return shaped_traits<Owner>::owns(a.get()); }
};

template <class Owner>
struct readiness_of_shaped {};
template <class Owner>
    requires requires(Owner const& a) { shaped_traits<Owner>::ready_on(a); }
struct readiness_of_shaped<Owner> {
    static auto ready_on(shaped<Owner> const& a) { return shaped_traits<Owner>::ready_on(a.get()); }
};

template <class Owner>
struct sharing_of_shaped {};
template <class Owner>
    requires(shaped_traits<Owner>::is_handle)
struct sharing_of_shaped<Owner> {
    static shaped<Owner> share(shaped<Owner> const& a) { return a; }
};

template <class Owner>
concept shaped_adopts = requires(managed_tensor m) { shaped_traits<Owner>::adopt(std::move(m)); };
template <class Owner>
concept shaped_adopts_with_stream =
    requires(managed_tensor m, stream_token ready) { shaped_traits<Owner>::adopt(std::move(m), ready); };

template <class Owner>
struct adoption_of_shaped {};
template <class Owner>
    requires(shaped_adopts<Owner> || shaped_adopts_with_stream<Owner>)
struct adoption_of_shaped<Owner> {
    static shaped<Owner> adopt(managed_tensor m)
        requires shaped_adopts<Owner>
    {
        return shaped<Owner>{shaped_traits<Owner>::adopt(std::move(m))};
    }
    static shaped<Owner> adopt(managed_tensor m, stream_token ready)
        requires shaped_adopts_with_stream<Owner>
    {
        return shaped<Owner>{shaped_traits<Owner>::adopt(std::move(m), ready)};
    }
};

template <class Owner, class... Stream>
concept shaped_allocates =
    requires(data_type t, shape_view s, device d, Stream... on) { shaped_traits<Owner>::allocate(t, s, d, on...); };

template <class Owner>
struct allocation_of_shaped {};
template <class Owner>
    requires(shaped_allocates<Owner> || shaped_allocates<Owner, stream_token>)
struct allocation_of_shaped<Owner> {
    template <std::same_as<stream_token>... Stream>
        requires shaped_allocates<Owner, Stream...>
    static shaped<Owner> allocate(data_type type, shape_view shape, device d, Stream... on) {
        return shaped<Owner>{shaped_traits<Owner>::allocate(type, shape, d, on...)};
    }
};

}  // namespace detail

/// Exports and imports of arrays of another library, to the extent that `shaped_traits<Owner>` supports them.
///
/// Handles are shared; other arrays are moved or copied. Imports require `shaped_traits<Owner>::adopt`, and share the
/// elements.
template <class Owner>
struct array_traits<shaped<Owner>> : detail::ownership_of_shaped<Owner>,
                                     detail::readiness_of_shaped<Owner>,
                                     detail::sharing_of_shaped<Owner>,
                                     detail::adoption_of_shaped<Owner>,
                                     detail::allocation_of_shaped<Owner> {};

}  // namespace FERRY_NAMESPACE
