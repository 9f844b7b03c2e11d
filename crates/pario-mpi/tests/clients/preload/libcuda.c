/*
 * A library that passes for CUDA's: it says of one range of addresses that it is device memory, and
 * of another that it is managed, which host and device share. The client chooses both.
 */
#include <stddef.h>
#include <stdint.h>

enum { SUCCESS = 0, INVALID_VALUE = 1 };
enum { MEMORY_TYPE = 2, IS_MANAGED = 8 };
enum { DEVICE = 2 };

typedef struct { uint64_t start, end; } Range;
static Range device, managed;

void fake_cuda_ranges(void *on_device, size_t device_bytes, void *shared, size_t shared_bytes);
int cuPointerGetAttribute(void *data, int attribute, uint64_t pointer);

void fake_cuda_ranges(void *on_device, size_t device_bytes, void *shared, size_t shared_bytes) {
    device.start = (uint64_t)(uintptr_t)on_device;
    device.end = device.start + device_bytes;
    managed.start = (uint64_t)(uintptr_t)shared;
    managed.end = managed.start + shared_bytes;
}

static int has(Range range, uint64_t pointer) { return pointer >= range.start && pointer < range.end; }

/* As the driver's: memory that it does not know is an error. */
int cuPointerGetAttribute(void *data, int attribute, uint64_t pointer) {
    if (!has(device, pointer) && !has(managed, pointer)) return INVALID_VALUE;
    if (attribute == MEMORY_TYPE) *(uint32_t *)data = DEVICE;
    else if (attribute == IS_MANAGED) *(uint32_t *)data = has(managed, pointer);
    else return INVALID_VALUE;
    return SUCCESS;
}
