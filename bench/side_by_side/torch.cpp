#include "turns.hpp"

#include <ATen/ATen.h>
#include <ATen/DLConvertor.h>

double bench::aten_turns(long n) {
    auto const tensor = at::zeros({2, 3, 4, 5});
    return turns(n, [&] {
        auto* raw = at::toDLPackVersioned(tensor);
        keep(raw);
        auto const back = at::fromDLPackVersioned(raw);
        keep(back.data_ptr());
    });
}
