// ferry: adapter for Eigen matrices, arrays, maps and tensors, row-major and column-major, without a copy.
#pragma once

#if !__has_include(<Eigen/Core>)
#error "Eigen not found: install Eigen 3.4, and add its include directory or, with CMake, link Eigen3::Eigen"
#include <see_the_error_above>
#endif

#include <ferry/adapters/shaped.hpp>
#include <ferry/tensor/typed_view.hpp>

#include <Eigen/Core>
#include <unsupported/Eigen/CXX11/Tensor>

#include <cstdint>
#include <source_location>
#include <type_traits>

namespace FERRY_NAMESPACE {
namespace detail {

/// Layout of a dense Eigen object: two dimensions, or one for compile-time vectors.
template <class Dense>
struct eigen_dense {
    static constexpr int max_rank = 2;
    static constexpr bool is_flat = false;
    using scalar = typename Dense::Scalar;
    static int describe(Dense const& m, std::int64_t* extents, std::int64_t* strides) noexcept {
        if constexpr (Dense::IsVectorAtCompileTime) {
            extents[0] = m.size();
            strides[0] = m.innerStride();
            return 1;
        } else {
            extents[0] = m.rows();
            extents[1] = m.cols();
            strides[Dense::IsRowMajor ? 0 : 1] = m.outerStride();
            strides[Dense::IsRowMajor ? 1 : 0] = m.innerStride();
            return 2;
        }
    }
    static data_type dtype(Dense const&) noexcept { return dtype_of<scalar>; }
};

/// Layout of an Eigen::Tensor, which is always compact.
template <class Tensor>
struct eigen_tensor {
    static constexpr int max_rank = Tensor::NumDimensions > 0 ? Tensor::NumDimensions : 1;
    static constexpr bool is_flat = false;
    static int describe(Tensor const& t, std::int64_t* extents, std::int64_t* strides) noexcept {
        constexpr int rank = Tensor::NumDimensions;
        constexpr bool row_major = static_cast<int>(Tensor::Layout) == static_cast<int>(Eigen::RowMajor);
        std::int64_t step = 1;
        for (int k = 0; k < rank; ++k) {
            int const i = row_major ? rank - 1 - k : k;
            extents[i] = t.dimension(static_cast<std::size_t>(i));
            strides[i] = step;
            step = compact_step(step, extents[i]);
        }
        return rank;
    }
    static data_type dtype(Tensor const&) noexcept { return dtype_of<typename Tensor::Scalar>; }
};

/// Access to an object that owns its elements. An object of fixed size contains its elements.
template <class Owner>
struct eigen_owner {
    static constexpr bool is_handle = false;
    static auto* data(Owner& m) noexcept { return m.data(); }
    static auto const* data(Owner const& m) noexcept { return m.data(); }
};

/// Access to a map, which references elements that it does not own.
template <class Map>
struct eigen_map {
    static constexpr bool is_handle = true, owns = false;
    static auto* data(Map& m) noexcept { return m.data(); }
    // `const` applies to the map, not to the elements.
    static auto* data(Map const& m) noexcept { return const_cast<Map&>(m).data(); }
};

}  // namespace detail

/// Eigen::Matrix, Array and Tensor: `ferry::shaped{std::move(m)}` owns the object, whether its size is dynamic or
/// fixed.
template <class S, int R, int C, int O, int MR, int MC>
struct shaped_traits<Eigen::Matrix<S, R, C, O, MR, MC>> : detail::eigen_dense<Eigen::Matrix<S, R, C, O, MR, MC>>,
                                                          detail::eigen_owner<Eigen::Matrix<S, R, C, O, MR, MC>> {};
template <class S, int R, int C, int O, int MR, int MC>
struct shaped_traits<Eigen::Array<S, R, C, O, MR, MC>> : detail::eigen_dense<Eigen::Array<S, R, C, O, MR, MC>>,
                                                         detail::eigen_owner<Eigen::Array<S, R, C, O, MR, MC>> {};
template <class S, int N, int O, class I>
struct shaped_traits<Eigen::Tensor<S, N, O, I>> : detail::eigen_tensor<Eigen::Tensor<S, N, O, I>>,
                                                  detail::eigen_owner<Eigen::Tensor<S, N, O, I>> {};
/// Eigen::Map: `ferry::shaped{map}` references the elements, which must outlive every tensor that shares them. An
/// rvalue is never shared; it is copied if the request permits a copy, and refused otherwise (D13). A map of const
/// elements is exported read-only (R11).
template <class M, int A, class S>
struct shaped_traits<Eigen::Map<M, A, S>> : detail::eigen_dense<Eigen::Map<M, A, S>>,
                                            detail::eigen_map<Eigen::Map<M, A, S>> {};

/// Returns an Eigen::Map of a two-dimensional view.
///
/// The map references the elements, which must outlive it. Negative strides are not supported. Does not synchronise.
///
/// \param v      view
/// \return       map; of const elements when `T` is const
/// \throws error  errc::strides for a negative stride (R28)
template <class T>
[[nodiscard]] auto to_eigen(typed_view<T, 2> const& v, std::source_location where = std::source_location::current()) {
    using matrix = Eigen::Matrix<std::remove_cv_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    using strides = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
    using map = Eigen::Map<std::conditional_t<std::is_const_v<T>, matrix const, matrix>, Eigen::Unaligned, strides>;
    for (int i = 0; i < 2; ++i)
        if (v.extent(i) > 1 && v.stride(i) < 0)
            detail::fail(errc::strides, "ferry::to_eigen",
                         message{"the stride of dimension "}
                             << i << " is " << v.stride(i)
                             << ", which Eigen does not support (R28): import with ferry::copy_policy::always",
                         where);
    return map{v.data(), v.extent(0), v.extent(1), strides{v.stride(0), v.stride(1)}};
}

}  // namespace FERRY_NAMESPACE
