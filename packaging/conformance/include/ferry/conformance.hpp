// ferry: the conformance kit for authors of adapters.
#pragma once

#include <ferry/conformance/run.hpp>
