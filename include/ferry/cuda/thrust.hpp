// ferry: Thrust's vectors as producers, and device views as what its algorithms take.
#pragma once

#include <ferry/base/error.hpp>
#include <ferry/base/stream_token.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/facts.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/exchange/producer.hpp>
#include <ferry/space/back_end.hpp>
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

namespace ferry::inline v0::cuda {

/// A vector of Thrust, recognised by shape: device_vector, host_vector (pinned allocators too), universal_vector,
/// universal_host_pinned_vector. Not required: that the host can read it.
template <class V>
concept thrust_vector = element<typename V::value_type> && requires(V& v, V const& c) {
    { thrust::raw_pointer_cast(v.data()) } -> std::same_as<typename V::value_type*>;
    { c.size() } -> std::convertible_to<std::size_t>;
    typename V::allocator_type;
};

/// A Thrust vector with the extents of a tensor, which a vector alone has no place for:
/// `ferry::to_dlpack(ferry::cuda::shaped{ std::move(vector), {rows, columns}})`. Owns the vector; copies copy the
/// elements, as the vector's do.
///
/// Thrust says nowhere on which stream a vector was written. Its default policy works on the default stream of the
/// program (legacy, or the thread's own), and the legacy default stream waits for both, so that is where a shaped
/// vector is ready unless it is told otherwise: after `thrust::cuda::par_nosync.on(s)`, or work of your own on a
/// non-blocking stream, give that stream.
template <thrust_vector Vector>
class shaped {
   public:
    /// \throws error  errc::shape when the extents do not multiply to the vector's size
    shaped(Vector vector, std::vector<std::int64_t> extents,
           stream_token ready_on = stream_token::cuda_legacy_default(),
           std::source_location where = std::source_location::current())
        : vector_{std::move(vector)}, extents_{std::move(extents)}, ready_on_{ready_on} {
        std::int64_t count = 0;
        if (!element_count(shape_view{extents_}, count) || count != static_cast<std::int64_t>(vector_.size()))
            ferry::detail::fail(errc::shape, "ferry::cuda::shaped",
                                message{"the extents do not multiply to the vector's "}
                                    << static_cast<std::uint64_t>(vector_.size()) << " elements",
                                where);
    }
    /// One dimension.
    explicit shaped(Vector vector, stream_token ready_on = stream_token::cuda_legacy_default())
        : vector_{std::move(vector)}, extents_{static_cast<std::int64_t>(vector_.size())}, ready_on_{ready_on} {}

    [[nodiscard]] Vector& vector() noexcept { return vector_; }
    [[nodiscard]] Vector const& vector() const noexcept { return vector_; }
    [[nodiscard]] stream_token ready_on() const noexcept { return ready_on_; }

    /// Asks the driver where the elements are: a vector does not know its device.
    [[nodiscard]] tensor_view ferry_view() {
        auto* const p = thrust::raw_pointer_cast(vector_.data());
        return {p, shape_view{extents_}, {}, place_of(p)};
    }
    [[nodiscard]] tensor_view ferry_view() const {
        auto const* const p = thrust::raw_pointer_cast(vector_.data());
        return {p, shape_view{extents_}, {}, place_of(p)};
    }

   private:
    [[nodiscard]] static ferry::device place_of(void const* p) {
        using reference = std::remove_cvref_t<decltype(std::declval<Vector&>()[0])>;
        if constexpr (std::is_pointer_v<typename Vector::pointer> &&
                      std::same_as<reference, typename Vector::value_type>) {
            if (std::same_as<typename Vector::allocator_type, std::allocator<typename Vector::value_type>>) return cpu;
        }
        if (p != nullptr) return where_is(p);
        // No elements, and the host could not read them.
        if constexpr (!std::same_as<reference, typename Vector::value_type>) {
            int id = 0;
            check(cudaGetDevice(&id), "cudaGetDevice");
            return {device_type::cuda, id};
        }
        return cpu;
    }

    Vector vector_;
    std::vector<std::int64_t> extents_;
    stream_token ready_on_;
};

/// The elements of a tensor in a new vector, row-major: a vector owns the memory that it allocates, so nothing can be
/// taken over, and this copies. `ready_on` is the stream on which the tensor is ready; the host waits for that stream
/// alone.
///
/// \throws error  errc::dtype when the elements are of another type; what ferry::copy and the vector throw
template <thrust_vector Vector, class BackEnd>
    requires back_end<std::remove_reference_t<BackEnd>>
[[nodiscard]] Vector to_vector(tensor_view const& v, BackEnd&& b, stream_token ready_on,
                               std::source_location where = std::source_location::current()) {
    using T = typename Vector::value_type;
    if (v.dtype() != dtype_of<T>)
        ferry::detail::fail(
            errc::dtype, "ferry::cuda::to_vector",
            message{"dtype is "} << v.dtype() << ", the vector has " << dtype_of<T> << ": convert the tensor first",
            where);
    shaped<Vector> result{Vector(static_cast<std::size_t>(v.size()))};
    tensor_view const flat = result.ferry_view();
    ferry::copy({static_cast<T*>(flat.data()), v.shape(), {}, flat.device()}, v, b, ready_on, where);
    return std::move(result.vector());
}

/// The elements of a contiguous device view, for Thrust's algorithms: `thrust::sort(device_begin(v), device_end(v))`.
/// The pointer carries the CUDA system; dereferenced on the host it copies one element. Pass `thrust::cuda::par.on(s)`
/// with the stream on which the tensor is ready.
template <element T, int Rank>
    requires(!packed_type<T>)
[[nodiscard]] thrust::device_ptr<T> device_begin(
    typed_view<T, Rank, access::device, layout::contiguous> const& v) noexcept {
    return thrust::device_pointer_cast(v.data());
}
/// The end of that range: one past its last element.
template <element T, int Rank>
    requires(!packed_type<T>)
[[nodiscard]] thrust::device_ptr<T> device_end(
    typed_view<T, Rank, access::device, layout::contiguous> const& v) noexcept {
    return thrust::device_pointer_cast(v.data() + v.size());
}
template <element T, int Rank, access Access, layout Layout>
    requires(Access != access::device || Layout != layout::contiguous)
// clang-format off
void device_begin(typed_view<T, Rank, Access, Layout> const&) FERRY_DELETED("Thrust wants contiguous device elements: ask for as<T, Rank, access::device, layout::contiguous>");
// clang-format on

}  // namespace ferry::inline v0::cuda

template <ferry::cuda::thrust_vector Vector>
struct ferry::array_traits<ferry::cuda::shaped<Vector>> {
    static tensor_view view(cuda::shaped<Vector>& a) { return a.ferry_view(); }
    static tensor_view view(cuda::shaped<Vector> const& a) { return a.ferry_view(); }
    static stream_token ready_on(cuda::shaped<Vector> const& a) { return a.ready_on(); }
};
