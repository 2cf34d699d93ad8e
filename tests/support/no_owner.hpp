// The owner of tensors whose memory outlives them.
#pragma once

namespace support {

struct no_owner {};

}  // namespace support
