#include <ferry/tensor/validate.hpp>

namespace {

template <class T>
concept validated = requires(T const& t) { ferry::validate(t); };

}  // namespace

static_assert(validated<DLTensor> && validated<DLManagedTensorVersioned>);
static_assert(!validated<DLManagedTensor>, "which flags to assume is the caller's to say: validate its dl_tensor");
static_assert(!validated<DLTensor*>);
