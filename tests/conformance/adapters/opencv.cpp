// The adapter for cv::Mat passes the kit.
#include "numbered.hpp"

#include <ferry/exchange/borrow.hpp>
#include <ferry/adapters/opencv.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <support/fails.hpp>
#include <support/no_owner.hpp>

#include <opencv2/core.hpp>

#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

namespace {

using mat = ferry::shaped<cv::Mat>;

struct maker {
    mat operator()(ferry::shape_view s, ferry::data_type type) const {
        auto m = ferry::shaped_traits<cv::Mat>::allocate(type, s, ferry::cpu);
        number(s, [&](auto* i, std::int64_t n) {
            std::int64_t at = 0;
            for (int k = 0; k < s.rank(); ++k) at += i[k] * static_cast<std::int64_t>(m.step[k]);
            ferry::conformance::detail::write_number(type, reinterpret_cast<std::byte*>(m.data) + at, n);
        });
        return mat{m};
    }
    mat strided(ferry::shape_view s) const {     // part of a larger matrix
        only(s.rank() == 2 && s[0] * s[1] > 0);  // OpenCV makes (0, 0) of an empty part
        cv::Mat const large(static_cast<int>(s[0]) + 2, static_cast<int>(s[1]) + 3, CV_32F);
        cv::Mat part = large(cv::Rect(2, 1, static_cast<int>(s[1]), static_cast<int>(s[0])));
        number(s, [&](auto* i, std::int64_t n) {
            part.at<float>(static_cast<int>(i[0]), static_cast<int>(i[1])) = static_cast<float>(n);
        });
        return mat{part};
    }
};

}  // namespace

TEST_CASE("R24: exports and imports of cv::Mat pass") {
    auto names = of_handles;
    names.merge(std::set<std::string>{"R53 adopt", "R62 adopt_moved", "R32 allocate_shape", "R62 failed_import"});
    keeps<mat>(maker{}, names);
}

TEST_CASE("R24: channels are exported as the last dimension and imported as channels") {
    cv::Mat image(4, 5, CV_8UC3);
    image.at<cv::Vec3b>(2, 3)[1] = 77;
    {
        auto t = ferry::to_dlpack(mat{image});
        CHECK(image.u->refcount == 2);
        CHECK(t.as<std::uint8_t, 3>()(2, 3, 1) == 77);
        auto const back = ferry::from_dlpack<mat>(std::move(t));
        CHECK(back.get().channels() == 3);
        CHECK(back.get().data == image.data);
        cv::Mat const another = back.get();  // shares the reference count
        CHECK(image.u->refcount == 2);
        CHECK(another.u->refcount == 2);
    }
    CHECK(image.u->refcount == 1);
}

TEST_CASE("R11, R28: the error for a tensor that cv::Mat does not support says what to do") {
    float values[6] = {};
    std::int64_t const shape[2] = {2, 3}, column_major[2] = {1, 2}, flat[1] = {6};
    auto const import = [](ferry::tensor_view v) {
        return [v] { static_cast<void>(ferry::from_dlpack<mat>(ferry::make_managed(support::no_owner{}, v))); };
    };
    support::fails(ferry::errc::strides, import({values, shape, column_major}), {"copy"});
    support::fails(ferry::errc::read_only, import(ferry::tensor_view{values, shape}.as_read_only()), {"copy"});
    support::fails(ferry::errc::rank, import({values, flat}), {"2"});
    auto there =
        ferry::make_managed(support::no_owner{}, ferry::tensor_view{values, shape, {}, {ferry::device_type::cuda, 0}});
    support::fails(ferry::errc::device,
                   [&] { static_cast<void>(ferry::shaped_traits<cv::Mat>::adopt(std::move(there))); },
                   {"on cuda", "request {.device = ferry::cpu}"});
    std::int64_t const long_shape[] = {(std::int64_t{1} << 32) + 2, 2}, repeated[] = {0, 1};
    ferry::tensor_view const long_view{values, long_shape, repeated};
    support::fails(ferry::errc::overflow, import(long_view), {"dimension 0 is 4294967298", "import a slice"});
    support::fails(ferry::errc::overflow,
                   [&] {
                       static_cast<void>(ferry::from_dlpack<mat>(ferry::make_managed(support::no_owner{}, long_view),
                                                                 {.copy = ferry::copy_policy::always}));
                   },
                   {"dimension 0 is 4294967298", "import a slice"});
    mat const nothing{cv::Mat{}};
    CHECK(ferry::view_of(nothing).is_empty());
}

TEST_CASE("OpenCV takes overlapping and permuted rows for continuous ones: they are rejected, and copied on request") {
    std::vector<float> values(12);
    std::iota(values.begin(), values.end(), 0.0f);
    std::int64_t const windows[2] = {3, 3}, by_one[2] = {1, 1};
    std::int64_t const shape[3] = {2, 3, 2}, permuted[3] = {2, 4, 1};
    for (ferry::tensor_view const& v :
         {ferry::tensor_view{values.data(), windows, by_one}, ferry::tensor_view{values.data(), shape, permuted}}) {
        auto const foreign = [&] { return ferry::make_managed(support::no_owner{}, v); };
        support::fails(ferry::errc::strides, [&] { static_cast<void>(ferry::from_dlpack<mat>(foreign())); }, {"copy"});
        auto const copy = ferry::from_dlpack<mat>(foreign(), {.copy = ferry::copy_policy::always});
        auto const clone = copy.get().clone();
        CHECK(clone.ptr<float>()[v.rank() == 2 ? 8 : 11] == (v.rank() == 2 ? 4.0f : 11.0f));
    }
}

TEST_CASE("R32: an extent beyond int is rejected, also for a copy") {
    std::int64_t const shape[2] = {std::int64_t{1} << 32, 0};
    ferry::tensor_view const empty{static_cast<float*>(nullptr), shape};
    for (auto const policy : {ferry::copy_policy::if_needed, ferry::copy_policy::always})
        support::fails(ferry::errc::overflow,
                       [&] {
                           auto m = ferry::make_managed(support::no_owner{}, empty);
                           static_cast<void>(ferry::from_dlpack<mat>(std::move(m), {.copy = policy}));
                       },
                       {"maximum of int"});
}

TEST_CASE("D13: a matrix over memory of the caller is not exported as an owner") {
    auto values = std::make_unique<float[]>(6);
    values[5] = 7;
    cv::Mat const outside(2, 3, CV_32F, values.get());
    support::fails(ferry::errc::not_shareable, [&] { static_cast<void>(ferry::to_dlpack(mat{outside})); },
                   {"does not own its elements"});
    support::fails(ferry::errc::not_shareable,
                   [&] { static_cast<void>(ferry::to_dlpack(mat{outside}, {.copy = ferry::copy_policy::never})); },
                   {"does not own its elements"});
    CHECK(ferry::to_dlpack(mat{outside}, ferry::request{}).is_copied());
    auto const cloned = ferry::to_dlpack(mat{outside.clone()});
    auto const copied = ferry::to_dlpack(mat{outside}, {.copy = ferry::copy_policy::always});
    {
        mat const kept{outside};  // as a span: the caller keeps the elements alive
        auto const shared = ferry::to_dlpack(kept);
        CHECK(shared.view().data() == values.get());
        auto const lent = ferry::borrow(kept);
        CHECK(lent.view().data() == values.get());
    }
    values.reset();
    CHECK(cloned.as<float, 2>()(1, 2) == 7);
    CHECK(copied.as<float, 2>()(1, 2) == 7);
    auto const empty = ferry::to_dlpack(mat{cv::Mat{}});
    CHECK(empty.view().is_empty());
}
