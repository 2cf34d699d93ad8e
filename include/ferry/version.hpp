// ferry: the library's version, in one place. Build files and packages read it from here.
#pragma once

#define FERRY_VERSION_MAJOR 0
#define FERRY_VERSION_MINOR 1
#define FERRY_VERSION_PATCH 0
