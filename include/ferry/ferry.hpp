// ferry: umbrella header for exchanging tensors between libraries (base/, tensor/, space/ and exchange/). CUDA, Python,
// columns, Arrow and IPC have separate umbrella headers. In comments and messages, a number such as R32 refers to a
// rule in docs/rules.md, and a number such as D17 to a decision in docs/design.md.
#pragma once

#include <ferry/base/catch_into.hpp>
#include <ferry/base/result.hpp>
#include <ferry/exchange/array_traits.hpp>
#include <ferry/exchange/borrow.hpp>
#include <ferry/exchange/consumer.hpp>
#include <ferry/exchange/from_dlpack.hpp>
#include <ferry/exchange/negotiate.hpp>
#include <ferry/exchange/producer.hpp>
#include <ferry/exchange/request.hpp>
#include <ferry/exchange/to_dlpack.hpp>
#include <ferry/exchange/to_host.hpp>
#include <ferry/space/back_end.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/space/copy.hpp>
#include <ferry/space/memory_space.hpp>
#include <ferry/tensor/as.hpp>
#include <ferry/tensor/constraints.hpp>
#include <ferry/tensor/for_each.hpp>
#include <ferry/tensor/inplace_view.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/tensor/managed.hpp>
#include <ferry/tensor/typed_view.hpp>
#include <ferry/tensor/validate.hpp>
#include <ferry/tensor/view.hpp>
#include <ferry/tensor/visit.hpp>
#include <ferry/version.hpp>
