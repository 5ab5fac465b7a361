/* SPDX-License-Identifier: MIT */
/* The public header alone, as strict C11; its version is that of the build and of the library. */
#include <tsa.h>

#include "config.h"

#include <stdio.h>
#include <string.h>

int main(void)
{
    char version[64];
    struct tsa_options options;
    snprintf(version, sizeof version, "%d.%d.%d", TSA_VERSION_MAJOR, TSA_VERSION_MINOR,
             TSA_VERSION_PATCH);
    if (strcmp(version, PACKAGE_VERSION) != 0 || strcmp(version, tsa_version()) != 0) {
        fprintf(stderr, "header %s, build %s, library %s\n", version, PACKAGE_VERSION,
                tsa_version());
        return 1;
    }
    return tsa_options_init(&options, sizeof options) != TSA_OK;
}
