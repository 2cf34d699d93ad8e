// ferry: exports and imports of cv::Mat, with strided rows, channels as the last dimension, and reference counts.
#pragma once

#if !__has_include(<opencv2/core/mat.hpp>)
#error "OpenCV not found: install OpenCV 4, and add its include directory or, with CMake, link opencv_core"
#include <see_the_error_above>
#endif

#include <ferry/adapters/shaped.hpp>

#include <opencv2/core/mat.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <utility>

namespace FERRY_NAMESPACE {
namespace detail {

/// Releases an imported tensor when the last cv::Mat that shares it is destroyed. Does not support allocation.
class opencv_owner final : public cv::MatAllocator {
   public:
    cv::UMatData* allocate(int, int const*, int, void*, std::size_t*, cv::AccessFlag,
                           cv::UMatUsageFlags) const override {
        return nullptr;
    }
    bool allocate(cv::UMatData*, cv::AccessFlag, cv::UMatUsageFlags) const override { return false; }
    void deallocate(cv::UMatData* u) const override {
        delete static_cast<managed_tensor*>(u->userdata);
        delete u;
    }
    [[nodiscard]] static opencv_owner const& instance() {
        static opencv_owner const& only = *new opencv_owner;  // not destroyed: matrices may outlive it
        return only;
    }
};

/// Maximum rank of a cv::Mat. OpenCV defines it as CV_MAX_DIM, in a header that is not included here.
inline constexpr int opencv_dims = 32;

/// An OpenCV depth and the corresponding DLPack data type.
struct opencv_depth {
    int depth;
    data_type type;
};
inline constexpr opencv_depth opencv_depths[] = {{CV_8U, {type_code::uint, 8}},     {CV_8S, {type_code::int_, 8}},
                                                 {CV_16U, {type_code::uint, 16}},   {CV_16S, {type_code::int_, 16}},
                                                 {CV_32S, {type_code::int_, 32}},   {CV_32F, {type_code::float_, 32}},
                                                 {CV_64F, {type_code::float_, 64}}, {CV_16F, {type_code::float_, 16}}};

/// Returns an extent as OpenCV stores it.
/// \throws error  errc::overflow when the extent exceeds the maximum of int
[[nodiscard]] inline int opencv_size(int dimension, std::int64_t extent) {
    if (extent > INT32_MAX)
        fail(errc::overflow, "ferry::from_dlpack",
             message{"the extent of dimension "}
                 << dimension << " is " << extent
                 << ", expected at most the maximum of int for a cv::Mat: import a slice");
    return static_cast<int>(extent);
}

/// \throws error  errc::dtype when OpenCV has no such depth
[[nodiscard]] inline int opencv_depth_of(data_type t, std::source_location where = std::source_location::current()) {
    for (auto const& row : opencv_depths)
        if (row.type == t) return row.depth;
    fail(errc::dtype, "ferry::from_dlpack",
         message{"OpenCV does not support the data type "} << t << ": convert the tensor before the import", where);
}

}  // namespace detail

/// `ferry::shaped{mat}` is a handle to the matrix: exports share its reference count. An imported matrix has its own
/// reference count, and releases the tensor when the count reaches 0.
///
/// Imports throw for read-only tensors, because OpenCV has no read-only matrices, and for strides that a matrix does
/// not support: negative strides, zero strides, strides smaller than the size of the inner dimensions (overlapping
/// windows, permuted dimensions), or an innermost stride other than 1. For such tensors, request
/// `{.copy = ferry::copy_policy::always, .layout = ferry::layout::contiguous}`.
///
/// A matrix that wraps memory owned by the caller, such as `cv::Mat(rows, columns, type, data)`, has no reference count
/// and does not own its elements. As an rvalue, it is copied if the request permits a copy, and refused otherwise, like
/// a std::span (D13). Export `ferry::shaped{mat.clone()}` instead, or export the matrix as an lvalue and keep the
/// memory alive.
template <>
struct shaped_traits<cv::Mat> {
    static constexpr int max_rank = detail::opencv_dims + 1;
    static constexpr bool is_flat = false, is_handle = true;

    /// Writes the extents and strides of a matrix.
    ///
    /// \param m        matrix
    /// \param extents  array for the extents; the number of channels, if more than 1, is the last one
    /// \param strides  array for the strides, in elements
    /// \return         rank
    static int describe(cv::Mat const& m, std::int64_t* extents, std::int64_t* strides) noexcept {
        int rank = m.dims;
        if (rank == 0) return extents[0] = extents[1] = 0, strides[0] = strides[1] = 1, 2;  // cv::Mat{}
        auto const item = static_cast<std::int64_t>(m.elemSize1());
        for (int i = 0; i < rank; ++i) {
            extents[i] = m.size[i];
            strides[i] = static_cast<std::int64_t>(m.step[i]) / item;
        }
        if (m.channels() > 1) {
            extents[rank] = m.channels();
            strides[rank++] = 1;
        }
        return rank;
    }
    /// Returns the type of one channel.
    ///
    /// \param m  matrix
    /// \return   data type; for a depth without a DLPack data type, an invalid type, which every export rejects
    static data_type dtype(cv::Mat const& m) noexcept {
        for (auto const& row : detail::opencv_depths)
            if (row.depth == m.depth()) return row.type;
        return {type_code::opaque_handle, 0};
    }
    /// Returns the address of the first element.
    ///
    /// \param m  matrix
    /// \return   address; null for an empty matrix
    static void* data(cv::Mat const& m) noexcept { return m.data; }
    /// Returns whether a matrix keeps its elements alive (D13).
    ///
    /// \param m  matrix
    /// \return   true when the matrix has a reference count
    static bool owns(cv::Mat const& m) noexcept { return m.u != nullptr; }

    /// Imports a tensor without a copy. The matrix owns the tensor on success; on failure the tensor has been released.
    /// If the tensor has at least 3 dimensions, and the last one has 2 to CV_CN_MAX elements without gaps between or
    /// after them, the last dimension becomes the channels.
    ///
    /// \param m  tensor in host-accessible memory
    /// \return   matrix that shares the elements
    /// \throws error           errc::rank, dtype, device, read_only (R11), strides (R28) or overflow
    /// \throws cv::Exception   errors of OpenCV
    /// \throws std::bad_alloc  when an allocation fails
    static cv::Mat adopt(managed_tensor m) {
        constexpr auto api = "ferry::from_dlpack";
        auto const v = m.view();
        int const depth = detail::opencv_depth_of(v.dtype());
        if (!is_host_accessible(v.device()))
            detail::fail(errc::device, api,
                         message{"the tensor is on "} << name(v.device().type)
                                                      << ", expected the host: request {.device = ferry::cpu}");
        if (v.is_read_only())
            detail::fail(errc::read_only, api,
                         message{"the tensor is read-only, and a cv::Mat is always writable (R11): import with "
                                 "ferry::copy_policy::always"});
        int rank = v.rank(), channels = 1;
        if (rank > 2 && v.extent(rank - 1) > 1 && v.extent(rank - 1) <= CV_CN_MAX && v.stride(rank - 1) == 1 &&
            (v.extent(rank - 2) <= 1 || v.stride(rank - 2) == v.extent(rank - 1)))
            channels = static_cast<int>(v.extent(--rank));
        if (rank < 2 || rank > detail::opencv_dims)
            detail::fail(
                errc::rank, api,
                message{"the rank is "} << v.rank() << ", expected 2 to " << detail::opencv_dims
                                        << " for a cv::Mat: reshape the tensor");
        int sizes[detail::opencv_dims];
        std::size_t steps[detail::opencv_dims];
        std::int64_t compact = channels;
        for (int i = rank; i-- > 0;) {
            sizes[i] = detail::opencv_size(i, v.extent(i));
            bool const free = v.extent(i) <= 1 || v.is_empty();
            std::int64_t const step = free ? compact : v.stride(i);
            // OpenCV treats overlapping or permuted rows as continuous, and would read beyond the elements.
            if (step < compact || (i == rank - 1 && step != channels))
                detail::fail(errc::strides, api,
                             message{"the stride of dimension "}
                                 << i << " is " << step
                                 << ", expected rows that do not overlap, in row-major order, and a dense innermost "
                                    "dimension: import with ferry::copy_policy::always and "
                                    "ferry::layout::contiguous");
            steps[i] = static_cast<std::size_t>(step) * (v.dtype().bits / 8u);
            compact = step * (v.extent(i) > 0 ? v.extent(i) : 1);
        }
        cv::Mat result(rank, sizes, CV_MAKETYPE(depth, channels), v.writable_data(), steps);
        auto* const u = new cv::UMatData(&detail::opencv_owner::instance());
        try {
            u->userdata = new managed_tensor{std::move(m)};
        } catch (...) {
            delete u;
            throw;
        }
        u->data = u->origdata = static_cast<unsigned char*>(v.writable_data());
        result.u = u;
        result.addref();
        return result;
    }
    /// Allocates a single-channel matrix in host memory.
    ///
    /// \param type   data type
    /// \param shape  2 to 32 extents
    /// \param d      device; must be ferry::cpu
    /// \return       matrix; its elements are uninitialised
    /// \throws error          errc::device, rank, dtype or overflow
    /// \throws cv::Exception  errors of OpenCV
    static cv::Mat allocate(data_type type, shape_view shape, device d) {
        if (d != cpu)
            detail::fail(errc::device, "ferry::from_dlpack",
                         message{"cannot allocate a cv::Mat on "} << name(d.type)
                                                                  << ": request {.device = ferry::cpu}");
        if (shape.rank() < 2 || shape.rank() > detail::opencv_dims)
            detail::fail(errc::rank, "ferry::from_dlpack",
                         message{"the rank is "} << shape.rank() << ", expected 2 to " << detail::opencv_dims
                                                 << " for a cv::Mat: reshape the tensor");
        int sizes[detail::opencv_dims];
        for (int i = 0; i < shape.rank(); ++i) sizes[i] = detail::opencv_size(i, shape[i]);
        return {shape.rank(), sizes, CV_MAKETYPE(detail::opencv_depth_of(type), 1)};
    }
};

}  // namespace FERRY_NAMESPACE
