// minitensor's adapter passes the kit.
#include "../kit/judged.hpp"

#include <minitensor/minitensor.hpp>
#include <minitensor_ferry.hpp>

#include <cstdint>
#include <vector>

namespace {

struct maker {
    mt::tensor operator()(ferry::shape_view shape, ferry::data_type type) const { return numbered(make(shape, type)); }
    mt::tensor strided(ferry::shape_view shape) const {
        std::vector<std::int64_t> steps;
        std::int64_t step = 2, count = 4;
        for (auto const extent : shape) {
            steps.push_back(step);
            step *= extent;
            count += 2 * step;
        }
        ferry::shape_view const all{&count, 1};
        return numbered(make(all, ferry::dtype_of<float>).restrided(3, {shape.begin(), shape.end()}, steps, false));
    }
    mt::tensor read_only(ferry::shape_view shape) const {
        auto const t = (*this)(shape, ferry::dtype_of<float>);
        return t.restrided(0, t.shape(), t.strides(), true);
    }
    long long live() const { return mt::live_bytes(); }
    bool reaches(ferry::device dev) const { return dev.type == ferry::device_type::cuda && mt::cuda_available(); }

   private:
    static mt::tensor make(ferry::shape_view shape, ferry::data_type type) {
        return {mt::dtype{type}, std::vector<std::int64_t>{shape.begin(), shape.end()}};
    }
    static mt::tensor numbered(mt::tensor t) {
        auto const v = ferry::view_of(t);
        ferry::conformance::detail::for_each_element(v, [&](std::int64_t ordinal, std::int64_t at) {
            ferry::conformance::detail::write_number(v.dtype(), static_cast<std::byte*>(v.writable_data()) + at, ordinal + 1);
            return true;
        });
        return t;
    }
};

}  // namespace

TEST_CASE("R24: minitensor passes every check of the kit") {
    judged const all = judge<mt::tensor>(maker{});
    INFO(all.told);
    CHECK(all.broken.empty());
    CHECK(all.kept.size() > 40);
    for (auto const& name : all.not_applicable) {
        INFO(name);
        CHECK(name != "R53 adopt");
    }
}
