/* profile.h - what a device itself takes: a named profile of the library, or a JSON file. */
#ifndef IMPMEM_COMMAND_PROFILE_H
#define IMPMEM_COMMAND_PROFILE_H

#include "impmem/plan.h"

/* COMMAND_DONE, or what to leave with after a complaint: COMMAND_USAGE for a name that nobody knows, COMMAND_FILE for a bad file.
 * A name of the shipped table wins over a file of the same name; ./NAME is always the file. */
int profile_load(const char *name_or_path, impmem_device_profile *out);

#endif
