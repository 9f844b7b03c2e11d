//! Atomic numbers and fences for models: loom's, with all orders tried.
//!
//! loom tries two operations in both orders where they depend on each other. It does not for a
//! store and another thread's load, if the storing thread has loaded the number in between; nor for
//! two fences. So each operation and each fence changes a number beside it as well, without being
//! ordered by that.

pub(crate) use loom::sync::atomic::Ordering;

loom::lazy_static! {
    static ref FENCES: loom::sync::atomic::AtomicU32 = loom::sync::atomic::AtomicU32::new(0);
}

pub(crate) fn fence(order: Ordering) {
    FENCES.fetch_add(0, Ordering::Relaxed);
    loom::sync::atomic::fence(order);
}

macro_rules! atomic {
    ($name:ident, $number:ty) => {
        #[derive(Default)]
        pub(crate) struct $name {
            value: loom::sync::atomic::$name,
            accesses: loom::sync::atomic::AtomicU32,
        }

        #[allow(dead_code)]
        impl $name {
            pub(crate) fn new(value: $number) -> $name {
                $name { value: loom::sync::atomic::$name::new(value), ..$name::default() }
            }

            fn access(&self) -> &loom::sync::atomic::$name {
                self.accesses.fetch_add(0, Ordering::Relaxed);
                &self.value
            }

            pub(crate) fn load(&self, order: Ordering) -> $number {
                self.access().load(order)
            }

            pub(crate) fn store(&self, value: $number, order: Ordering) {
                self.access().store(value, order);
            }

            pub(crate) fn fetch_add(&self, value: $number, order: Ordering) -> $number {
                self.access().fetch_add(value, order)
            }

            pub(crate) fn fetch_sub(&self, value: $number, order: Ordering) -> $number {
                self.access().fetch_sub(value, order)
            }

            pub(crate) fn compare_exchange(
                &self,
                old: $number,
                new: $number,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$number, $number> {
                self.access().compare_exchange(old, new, success, failure)
            }

            pub(crate) fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                change: impl FnMut($number) -> Option<$number>,
            ) -> Result<$number, $number> {
                self.access().fetch_update(set, fetch, change)
            }
        }
    };
}
atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);
