// What each part makes and takes.
#pragma once

#include <ferry/arrow.hpp>
#include <ferry/column.hpp>
#include <ferry/ferry.hpp>

#define DECLARE_PART(name)                     \
    namespace name {                           \
    ferry::managed_tensor make();              \
    float sum(ferry::managed_tensor const&);   \
    ferry::column make_column();               \
    std::int64_t length(ferry::column const&); \
    }
