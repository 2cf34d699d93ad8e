// The layout of the structs of Arrow's C interfaces on LP64, and the macros of their specification.
#include <ferry/abi/arrow.hpp>

#include <cstddef>
#include <cstdint>

static_assert(sizeof(ArrowSchema) == 72);
static_assert(offsetof(ArrowSchema, format) == 0);
static_assert(offsetof(ArrowSchema, name) == 8);
static_assert(offsetof(ArrowSchema, metadata) == 16);
static_assert(offsetof(ArrowSchema, flags) == 24);
static_assert(offsetof(ArrowSchema, n_children) == 32);
static_assert(offsetof(ArrowSchema, children) == 40);
static_assert(offsetof(ArrowSchema, dictionary) == 48);
static_assert(offsetof(ArrowSchema, release) == 56);
static_assert(offsetof(ArrowSchema, private_data) == 64);

static_assert(sizeof(ArrowArray) == 80);
static_assert(offsetof(ArrowArray, length) == 0);
static_assert(offsetof(ArrowArray, null_count) == 8);
static_assert(offsetof(ArrowArray, offset) == 16);
static_assert(offsetof(ArrowArray, n_buffers) == 24);
static_assert(offsetof(ArrowArray, n_children) == 32);
static_assert(offsetof(ArrowArray, buffers) == 40);
static_assert(offsetof(ArrowArray, children) == 48);
static_assert(offsetof(ArrowArray, dictionary) == 56);
static_assert(offsetof(ArrowArray, release) == 64);
static_assert(offsetof(ArrowArray, private_data) == 72);

static_assert(sizeof(ArrowDeviceArray) == 128);
static_assert(offsetof(ArrowDeviceArray, array) == 0);
static_assert(offsetof(ArrowDeviceArray, device_id) == 80);
static_assert(offsetof(ArrowDeviceArray, device_type) == 88);
static_assert(offsetof(ArrowDeviceArray, sync_event) == 96);
static_assert(offsetof(ArrowDeviceArray, reserved) == 104);

static_assert(sizeof(ArrowArrayStream) == 40);
static_assert(offsetof(ArrowArrayStream, get_schema) == 0);
static_assert(offsetof(ArrowArrayStream, get_next) == 8);
static_assert(offsetof(ArrowArrayStream, get_last_error) == 16);
static_assert(offsetof(ArrowArrayStream, release) == 24);
static_assert(offsetof(ArrowArrayStream, private_data) == 32);

static_assert(sizeof(ArrowDeviceArrayStream) == 48);
static_assert(offsetof(ArrowDeviceArrayStream, device_type) == 0);
static_assert(offsetof(ArrowDeviceArrayStream, get_schema) == 8);

// Headers that are included later find the structs declared, and rely on the macros of the specification.
static_assert(ARROW_FLAG_DICTIONARY_ORDERED == 1 && ARROW_FLAG_NULLABLE == 2 && ARROW_FLAG_MAP_KEYS_SORTED == 4);
static_assert(ARROW_DEVICE_CPU == 1 && ARROW_DEVICE_CUDA == 2 && ARROW_DEVICE_CUDA_HOST == 3 &&
              ARROW_DEVICE_CUDA_MANAGED == 13);
static_assert(ferry::abi::arrow_flag::nullable == ARROW_FLAG_NULLABLE);
