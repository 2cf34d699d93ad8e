// ferry: umbrella header for sharing tensors and columns with other processes.
#pragma once

#include <ferry/ferry.hpp>
#include <ferry/ipc/attach.hpp>
#include <ferry/ipc/attach_column.hpp>
#include <ferry/ipc/handles.hpp>
#include <ferry/ipc/session.hpp>
#include <ferry/ipc/share.hpp>
#include <ferry/ipc/share_column.hpp>
#include <ferry/ipc/shared.hpp>
#include <ferry/ipc/space.hpp>
#include <ferry/wire/descriptor.hpp>
