// The engines of a program that compiles them once, for gpu_fake_compiled.
#include <ferry/cuda/src.hpp>
#include <ferry/src.hpp>
