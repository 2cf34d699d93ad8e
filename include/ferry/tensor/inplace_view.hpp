// ferry: a view that contains its extents and strides, for arrays that store them in another form.
#pragma once

#include <ferry/base/inplace_dims.hpp>
#include <ferry/tensor/view.hpp>

namespace FERRY_NAMESPACE {

/// A tensor_view of at most `MaxRank` dimensions that stores its extents and strides, and references only the data.
///
/// Returned by `array_traits<T>::view` and `ferry_view` for an array that does not store its extents as a list of
/// std::int64_t: `return {a.data, {a.rows, a.columns}};`. Does not allocate. Converts to `tensor_view const&`. A
/// tensor_view that is copied from an inplace_view references the extents and strides of that object. Such a copy of a
/// temporary does not compile, nor does the assignment of an inplace_view to a tensor_view.
template <int MaxRank>
class inplace_view : public tensor_view {
   public:
    /// Constructs a view of elements of a C++ type.
    ///
    /// \param data     address of the first element; `T const*` makes the view read-only (R11)
    /// \param shape    extents
    /// \param strides  strides in elements; without them the elements are compact row-major
    /// \param dev      device of the data
    template <element T>
    constexpr inplace_view(T* data, inplace_dims<MaxRank> shape, inplace_dims<MaxRank> strides = {},
                           ferry::device dev = cpu) noexcept
        : inplace_view(const_cast<std::remove_const_t<T>*>(data), dtype_of<T>, shape, strides, dev,
                       std::is_const_v<T> ? flags::read_only : flags::none) {}

    /// Constructs a view of elements of a type known at run time.
    ///
    /// \param data     address of the first element; a pointer to const makes the view read-only (R11)
    /// \param type     data type
    /// \param shape    extents
    /// \param strides  strides in elements; without them the elements are compact row-major
    /// \param dev      device of the data
    /// \param bits     flags; exports ignore flags::is_copied
    constexpr inplace_view(void* data, data_type type, inplace_dims<MaxRank> shape, inplace_dims<MaxRank> strides = {},
                           ferry::device dev = cpu, ferry::flags bits = ferry::flags::none) noexcept
        : tensor_view{data, type, {}, {}, dev, bits}, shape_{shape}, strides_{strides} {
        refer();
    }
    constexpr inplace_view(void const* data, data_type type, inplace_dims<MaxRank> shape,
                           inplace_dims<MaxRank> strides = {}, ferry::device dev = cpu,
                           ferry::flags bits = ferry::flags::none) noexcept
        : inplace_view{const_cast<void*>(data), type, shape, strides, dev, bits | ferry::flags::read_only} {}

    constexpr inplace_view(inplace_view const& other) noexcept
        : tensor_view{static_cast<tensor_view const&>(other)}, shape_{other.shape_}, strides_{other.strides_} {
        refer();
    }
    constexpr inplace_view& operator=(inplace_view const& other) noexcept {
        static_cast<tensor_view&>(*this) = static_cast<tensor_view const&>(other);
        shape_ = other.shape_;
        strides_ = other.strides_;
        refer();
        return *this;
    }

    /// Returns the extents, which this object contains.
    [[nodiscard]] constexpr shape_view shape() const& noexcept { return tensor_view::shape(); }
    /// Returns the strides, which this object contains; implicit if no strides were passed to the constructor.
    [[nodiscard]] constexpr strides_view strides() const& noexcept { return tensor_view::strides(); }
    /// Returns a read-only view of the same elements.
    [[nodiscard]] constexpr inplace_view as_read_only() const noexcept {
        return with_device(device(), flags() | ferry::flags::read_only);
    }
    /// Returns a view of the same elements with another device and flags.
    ///
    /// \param dev   device of the data
    /// \param bits  flags
    /// \return      view with its own extents and strides
    [[nodiscard]] constexpr inplace_view with_device(ferry::device dev, ferry::flags bits) const noexcept {
        return {detail::untyped_data(*this), dtype(), shape_, strides_, dev, bits};
    }

    // clang-format off
    shape_view shape() const&& FERRY_DELETED("the temporary inplace_view contains the extents: store it in an auto variable");
    strides_view strides() const&& FERRY_DELETED("the temporary inplace_view contains the strides: store it in an auto variable");
    template <class T, std::integral... Int>
        requires(sizeof...(Int) > 0)
    inplace_view(T*, Int...) FERRY_DELETED("put the extents in braces: {data, {rows, columns}}");
    template <class T, std::integral... Int>
        requires(sizeof...(Int) > 0)
    inplace_view(T*, data_type, Int...) FERRY_DELETED("put the extents in braces: {data, type, {rows, columns}}");
    template <class T, std::integral Int, class... Rest>
    inplace_view(T*, inplace_dims<MaxRank>, Int, Rest...) FERRY_DELETED("put the strides in braces: {data, {extent}, {stride}}");
    template <class T, std::integral Int, class... Rest>
    inplace_view(T*, data_type, inplace_dims<MaxRank>, Int, Rest...) FERRY_DELETED("put the strides in braces: {data, type, {extent}, {stride}}");
    template <class T>
        requires(!element<T> && !std::is_void_v<T>)
    inplace_view(T*, inplace_dims<MaxRank>, inplace_dims<MaxRank> = {}, ferry::device = cpu) FERRY_DELETED("this element type has no data type: specialise ferry::dtype_traits<T>, or pass a ferry::data_type after the pointer");
    template <class T>
        requires(std::is_void_v<T>)
    inplace_view(T*, inplace_dims<MaxRank>, inplace_dims<MaxRank> = {}, ferry::device = cpu) FERRY_DELETED("a void* has no data type: pass a ferry::data_type after the pointer");
    template <class T, class Device>
        requires(!std::convertible_to<Device const&, ferry::device>)
    inplace_view(T*, inplace_dims<MaxRank>, inplace_dims<MaxRank>, Device const&) FERRY_DELETED("the device is not a ferry::device: convert it, for example to ferry::device{ferry::device_type::cuda, id}");
    // clang-format on

   private:
    /// Makes the base reference the lists of this object.
    constexpr void refer() noexcept {
        static_cast<tensor_view&>(*this) =
            tensor_view{detail::untyped_data(*this), dtype(), {shape_.data(), shape_.rank()},
                        {strides_.rank() != 0 ? strides_.data() : nullptr, strides_.rank()},
                        device(), flags()};
    }

    inplace_dims<MaxRank> shape_, strides_;
};

}  // namespace FERRY_NAMESPACE
