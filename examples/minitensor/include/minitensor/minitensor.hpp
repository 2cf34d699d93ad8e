// minitensor: all headers.
#pragma once

#include <minitensor/device.hpp>
#include <minitensor/dtype.hpp>
#include <minitensor/error.hpp>
#include <minitensor/number.hpp>
#include <minitensor/ops/copy.hpp>
#include <minitensor/ops/create.hpp>
#include <minitensor/ops/print.hpp>
#include <minitensor/ops/view.hpp>
#include <minitensor/storage.hpp>
#include <minitensor/tensor.hpp>
