// A program of a user, which includes ferry without -isystem: it compiles without warnings under strict options, and
// sanitizers report nothing when it runs.
#include <ferry/ferry.hpp>

#include <cstdint>
#include <utility>
#include <vector>

struct grid {
    std::vector<float> values;
    std::int64_t extents[2];
    ferry::managed_tensor imported{};
};

template <>
struct ferry::array_traits<grid> {
    static tensor_view view(grid& g) { return {g.values.data(), g.extents}; }
    static grid adopt(managed_tensor m) { return {{}, {}, std::move(m)}; }
};

bool column_is_equal();

// GCC optimises this function more than main.
ferry::managed_tensor exported(grid array) { return ferry::to_dlpack(std::move(array)); }

static float last(DLTensor const* t) { return static_cast<float const*>(t->data)[t->shape[0] * t->shape[1] - 1]; }

int main() {
    grid g{{1, 2, 3, 4, 5, 6}, {2, 3}};
    auto const lent = ferry::borrow(ferry::inplace_view<2>{g.values.data(), {2, 3}});
    bool const is_lent = last(lent.dltensor()) == 6;
    auto tensor = ferry::to_dlpack(std::move(g));
    auto copy = ferry::to_dlpack(std::as_const(tensor), {.copy = ferry::copy_policy::always});
    grid const shared = ferry::from_dlpack<grid>(tensor.release());
    grid const copied = ferry::from_dlpack<grid>(std::move(copy), {.copy = ferry::copy_policy::always});
    bool const is_shared = shared.imported.as<float, 2>()(1, 2) == 6;
    bool const is_copied = copied.imported.as<float, 2>()(0, 1) == 2;
    return is_lent && is_shared && is_copied && column_is_equal() ? 0 : 1;
}
