// ferry: cv::Mat, both ways: strided rows, channels as the last dimension, one reference count.
#pragma once

#include <ferry/adapters/shaped.hpp>

#include <opencv2/core/mat.hpp>

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <utility>

namespace ferry::inline v0 {
namespace detail {

/// Drops a foreign tensor with the last cv::Mat that shares it. Allocates nothing itself.
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
        static opencv_owner const& only = *new opencv_owner;  // never destroyed: matrices outlive statics
        return only;
    }
};

/// The most dimensions of a cv::Mat; OpenCV's own name for it is in a header of C.
inline constexpr int opencv_dims = 32;

/// The depth of OpenCV and the type of DLPack.
struct opencv_depth {
    int depth;
    data_type type;
};
inline constexpr opencv_depth opencv_depths[] = {{CV_8U, {type_code::uint, 8}},     {CV_8S, {type_code::int_, 8}},
                                                 {CV_16U, {type_code::uint, 16}},   {CV_16S, {type_code::int_, 16}},
                                                 {CV_32S, {type_code::int_, 32}},   {CV_32F, {type_code::float_, 32}},
                                                 {CV_64F, {type_code::float_, 64}}, {CV_16F, {type_code::float_, 16}}};

/// \throws error  errc::dtype
[[nodiscard]] inline int opencv_depth_of(data_type t, std::source_location where = std::source_location::current()) {
    for (auto const& row : opencv_depths)
        if (row.type == t) return row.depth;
    fail(errc::dtype, "ferry::from_dlpack",
         message{"OpenCV has no elements of type "} << t << ": convert them at the producer", where);
}

}  // namespace detail

/// `ferry::shaped{mat}` is one more handle to the matrix: exports and imports count as cv::Mat does. Imports refuse
/// read-only tensors, for which OpenCV has no word, and strides that a matrix cannot have: negative, zero, or an
/// innermost one other than 1; `{.copy = ferry::copy_policy::always}` is the cure for each.
template <>
struct shaped_traits<cv::Mat> {
    static constexpr int max_rank = detail::opencv_dims + 1;
    static constexpr bool is_flat = false, is_handle = true;

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
    static data_type dtype(cv::Mat const& m) noexcept {
        for (auto const& row : detail::opencv_depths)
            if (row.depth == m.depth()) return row.type;
        return {type_code::opaque_handle, 0};  // which no export takes
    }
    static void* data(cv::Mat const& m) noexcept { return m.data; }

    /// \throws error  errc::rank, dtype, device, read_only, strides, overflow;  cv::Exception
    static cv::Mat adopt(managed_tensor m) {
        constexpr auto api = "ferry::from_dlpack";
        auto const v = m.view();
        int const depth = detail::opencv_depth_of(v.dtype());
        if (!is_host_accessible(v.device()))
            detail::fail(errc::device, api, message{"a cv::Mat is on the host: ask for {.device = ferry::cpu}"});
        if (v.is_read_only())
            detail::fail(errc::read_only, api,
                         message{"a cv::Mat cannot say that it is read-only (R11): ask for a copy"});
        int rank = v.rank(), channels = 1;
        if (rank > 2 && v.extent(rank - 1) > 1 && v.extent(rank - 1) <= CV_CN_MAX && v.stride(rank - 1) == 1 &&
            (v.extent(rank - 2) <= 1 || v.stride(rank - 2) == v.extent(rank - 1)))
            channels = static_cast<int>(v.extent(--rank));
        if (rank < 2 || rank > detail::opencv_dims)
            detail::fail(
                errc::rank, api,
                message{"rank "} << v.rank() << ": a cv::Mat has 2 to " << detail::opencv_dims << " dimensions");
        int sizes[detail::opencv_dims];
        std::size_t steps[detail::opencv_dims];
        std::int64_t compact = channels;
        for (int i = rank; i-- > 0;) {
            if (v.extent(i) > INT32_MAX)
                detail::fail(errc::overflow, api, message{"an extent is more than cv::Mat counts"});
            bool const free = v.extent(i) <= 1 || v.is_empty();
            std::int64_t const step = free ? compact : v.stride(i);
            if (step <= 0 || (i == rank - 1 && step != channels))
                detail::fail(errc::strides, api,
                             message{"the stride of dimension "}
                                 << i << " is " << step
                                 << ": a cv::Mat has positive ones, the innermost without gaps: ask for a copy");
            sizes[i] = static_cast<int>(v.extent(i));
            steps[i] = static_cast<std::size_t>(step * v.dtype().bits / 8);
            compact = step * (v.extent(i) > 0 ? v.extent(i) : 1);
        }
        cv::Mat result(rank, sizes, CV_MAKETYPE(depth, channels), v.data(), steps);
        auto* const u = new cv::UMatData(&detail::opencv_owner::instance());
        try {
            u->userdata = new managed_tensor{std::move(m)};
        } catch (...) {
            delete u;
            throw;
        }
        u->data = u->origdata = static_cast<unsigned char*>(v.data());
        result.u = u;
        result.addref();
        return result;
    }
    static cv::Mat allocate(data_type type, shape_view shape, device where) {
        if (where != cpu) detail::fail(errc::device, "ferry::from_dlpack", message{"a cv::Mat is on the host"});
        if (shape.rank() < 2 || shape.rank() > detail::opencv_dims)
            detail::fail(errc::rank, "ferry::from_dlpack", message{"a cv::Mat has 2 dimensions or more"});
        int sizes[detail::opencv_dims];
        for (int i = 0; i < shape.rank(); ++i) sizes[i] = static_cast<int>(shape[i]);
        return {shape.rank(), sizes, CV_MAKETYPE(detail::opencv_depth_of(type), 1)};
    }
};

}  // namespace ferry::inline v0
