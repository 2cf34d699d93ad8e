// ferry: Thrust vectors as producers, and device views as iterators for Thrust algorithms.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/facts.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/exchange/producer.hpp>
#include <ferry/space/back_end_ref.hpp>
#include <ferry/space/copy.hpp>
#include <ferry/tensor/typed_view.hpp>
#include <ferry/tensor/view.hpp>

#include <thrust/device_ptr.h>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/memory.h>
#include <thrust/universal_vector.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <type_traits>
#include <utility>
#include <vector>

namespace FERRY_NAMESPACE::cuda {

/// A Thrust vector: device_vector, host_vector (also with pinned allocators), universal_vector or
/// universal_host_pinned_vector. Recognised by its members. The host need not be able to access the elements.
template <class V>
concept thrust_vector = element<typename V::value_type> && requires(V& v, V const& c) {
    { thrust::raw_pointer_cast(v.data()) } -> std::same_as<typename V::value_type*>;
    { c.size() } -> std::convertible_to<std::size_t>;
    typename V::allocator_type;
};

namespace detail {

template <class Vector>
[[nodiscard]] device device_of_elements(void const* p) {
    using reference = std::remove_cvref_t<decltype(std::declval<Vector&>()[0])>;
    if constexpr (std::is_pointer_v<typename Vector::pointer> && std::same_as<reference, typename Vector::value_type>) {
        if (std::same_as<typename Vector::allocator_type, std::allocator<typename Vector::value_type>>) return cpu;
    }
    if (p != nullptr) return device_of_pointer(p);
    // The vector is empty, and the host could not access its elements.
    if constexpr (!std::same_as<reference, typename Vector::value_type>) {
        int id = 0;
        check(cudaGetDevice(&id), "cudaGetDevice");
        return {device_type::cuda, id};
    }
    return cpu;
}

}  // namespace detail

/// A Thrust vector with the extents of a tensor: `ferry::to_dlpack(ferry::cuda::shaped{std::move(vector), {rows,
/// columns}})`. Owns the vector; copying this object copies the elements.
///
/// A vector does not store the stream on which it was written. By default, a shaped vector is ready on the legacy
/// default stream. Work queued there runs after earlier work on either of the default streams that Thrust's default
/// policy may use. After work with `thrust::cuda::par_nosync.on(s)`, or other work on a non-blocking stream, pass that
/// stream.
template <thrust_vector Vector>
class shaped {
   public:
    /// Takes ownership of a vector.
    ///
    /// \param vector    vector to own
    /// \param extents   extents; their product is the vector's size
    /// \param ready_on  stream on which the elements are ready
    /// \throws error  errc::shape when the product of the extents differs from the vector's size
    shaped(Vector vector, std::vector<std::int64_t> extents,
           stream_token ready_on = stream_token::cuda_legacy_default(),
           std::source_location where = std::source_location::current())
        : vector_{std::move(vector)}, extents_{std::move(extents)}, ready_on_{ready_on} {
        std::int64_t count = 0;
        if (!element_count(shape_view{extents_}, count) || count != static_cast<std::int64_t>(vector_.size()))
            ferry::detail::fail(errc::shape, "ferry::cuda::shaped",
                                message{"the product of the extents differs from the vector's size: expected "}
                                    << static_cast<std::uint64_t>(vector_.size()) << " elements: correct the extents",
                                where);
    }
    /// Takes ownership of a vector, as a tensor with one dimension.
    ///
    /// \param vector    vector to own
    /// \param ready_on  stream on which the elements are ready
    explicit shaped(Vector vector, stream_token ready_on = stream_token::cuda_legacy_default())
        : vector_{std::move(vector)}, extents_{static_cast<std::int64_t>(vector_.size())}, ready_on_{ready_on} {}

    /// Returns the vector.
    [[nodiscard]] Vector& vector() noexcept { return vector_; }
    /// Returns the vector.
    [[nodiscard]] Vector const& vector() const noexcept { return vector_; }
    /// Returns the stream on which the elements are ready.
    [[nodiscard]] stream_token ready_on() const noexcept { return ready_on_; }

    /// Returns a view of the elements. Queries the driver for their device, which a vector does not store, except for a
    /// host_vector with std::allocator. The device of a vector without memory is cpu if the host can access the
    /// elements of vectors of its type, and the current CUDA device otherwise.
    ///
    /// \return  a view, valid until the vector is destroyed or its memory is reallocated
    /// \throws error  errors of `device_of_pointer`; errors of CUDA
    [[nodiscard]] tensor_view ferry_view() {
        auto* const p = thrust::raw_pointer_cast(vector_.data());
        return {p, shape_view{extents_}, {}, detail::device_of_elements<Vector>(p)};
    }
    [[nodiscard]] tensor_view ferry_view() const {
        auto const* const p = thrust::raw_pointer_cast(vector_.data());
        return {p, shape_view{extents_}, {}, detail::device_of_elements<Vector>(p)};
    }

   private:
    Vector vector_;
    std::vector<std::int64_t> extents_;
    stream_token ready_on_;
};

/// Copies a tensor into a new vector, in row-major order, because a vector cannot adopt memory. Blocks the host until
/// the copy is complete. The copy waits for no stream other than `ready_on`; the constructor of the vector may also
/// synchronise a default stream. Exceptions from the vector propagate.
///
/// \param v         tensor to copy
/// \param b         back end
/// \param ready_on  stream on which `v` is ready
/// \return          the vector
/// \throws error  errc::dtype when the vector has another element type; errors of ferry::copy
template <thrust_vector Vector>
[[nodiscard]] Vector to_vector(tensor_view const& v, back_end_ref b, stream_token ready_on,
                               std::source_location where = std::source_location::current()) {
    using T = typename Vector::value_type;
    if (v.dtype() != dtype_of<T>)
        ferry::detail::fail(
            errc::dtype, "ferry::cuda::to_vector",
            message{"dtype is "} << v.dtype() << ", expected " << dtype_of<T> << ": convert the tensor first", where);
    shaped<Vector> result{Vector(static_cast<std::size_t>(v.size()))};
    tensor_view const flat = result.ferry_view();
    ferry::copy({static_cast<T*>(flat.writable_data()), v.shape(), {}, flat.device()}, v, b, ready_on, where);
    return std::move(result.vector());
}

/// Returns an iterator to the first element of a contiguous device view, for Thrust algorithms such as
/// `thrust::sort(thrust::cuda::par.on(s), device_begin(v), device_end(v))`, where `s` is the stream on which the tensor
/// is ready. The type of the iterator selects Thrust's CUDA system. Dereferencing it on the host copies an element.
///
/// \param v  view; borrowed
/// \return   iterator to the first element
template <element T, int Rank>
    requires(!packed_type<T>)
[[nodiscard]] thrust::device_ptr<T> device_begin(
    typed_view<T, Rank, access_from::device, layout::contiguous> const& v) noexcept {
    return thrust::device_pointer_cast(v.data());
}
/// Returns an iterator past the last element of a contiguous device view.
///
/// \param v  view; borrowed
/// \return   iterator past the last element
template <element T, int Rank>
    requires(!packed_type<T>)
[[nodiscard]] thrust::device_ptr<T> device_end(
    typed_view<T, Rank, access_from::device, layout::contiguous> const& v) noexcept {
    return thrust::device_pointer_cast(v.data() + v.size());
}
template <element T, int Rank, access_from Access, layout Layout>
    requires(Access != access_from::device || Layout != layout::contiguous)
// clang-format off
void device_begin(typed_view<T, Rank, Access, Layout> const&) FERRY_DELETED("Thrust requires contiguous device elements: use as<T, Rank, access_from::device, layout::contiguous>");
// clang-format on

}  // namespace FERRY_NAMESPACE::cuda

template <ferry::cuda::thrust_vector Vector>
struct ferry::array_traits<ferry::cuda::shaped<Vector>> {
    /// Returns a view of a shaped vector.
    ///
    /// \param a  shaped vector
    /// \return   a view of its elements
    /// \throws error  errors of `shaped::ferry_view`
    static tensor_view view(cuda::shaped<Vector>& a) { return a.ferry_view(); }
    /// Returns a read-only view of a shaped vector.
    ///
    /// \param a  shaped vector
    /// \return   a read-only view of its elements
    /// \throws error  errors of `shaped::ferry_view`
    static tensor_view view(cuda::shaped<Vector> const& a) { return a.ferry_view(); }
    /// Returns the stream on which a shaped vector is ready.
    ///
    /// \param a  shaped vector
    /// \return   stream on which its elements are ready
    static stream_token ready_on(cuda::shaped<Vector> const& a) { return a.ready_on(); }
};

/// A device_vector, host_vector or universal_vector is a tensor with one dimension, which is ready on the legacy
/// default stream, as a `shaped` vector is by default. An export moves the vector into the tensor, or copies it. For
/// other extents, use `shaped`.
template <ferry::cuda::thrust_vector Vector>
    requires std::derived_from<
        Vector, thrust::detail::vector_base<typename Vector::value_type, typename Vector::allocator_type>>
struct ferry::array_traits<Vector> {
    /// Returns a view of a vector.
    ///
    /// \param v  vector
    /// \return   a view of its elements; valid until its memory is reallocated
    /// \throws error  errors of `device_of_pointer`; errors of CUDA
    static inplace_view<1> view(Vector& v) { return view_of(thrust::raw_pointer_cast(v.data()), v.size()); }
    /// Returns a read-only view of a vector.
    ///
    /// \param v  vector
    /// \return   a read-only view of its elements
    /// \throws error  errors of `device_of_pointer`; errors of CUDA
    static inplace_view<1> view(Vector const& v) { return view_of(thrust::raw_pointer_cast(v.data()), v.size()); }
    /// Returns the legacy default stream, which runs after work on the streams of Thrust's default policy.
    ///
    /// \param v  vector
    /// \return   the legacy default stream
    static stream_token ready_on(Vector const&) { return stream_token::cuda_legacy_default(); }

   private:
    template <class T>
    static inplace_view<1> view_of(T* p, std::size_t size) {
        return {p, {static_cast<std::int64_t>(size)}, {1}, cuda::detail::device_of_elements<Vector>(p)};
    }
};
