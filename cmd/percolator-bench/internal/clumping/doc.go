// Package clumping measures what section 2.4 of the paper calls platooning, or bus clumping: scanners that end up at the same place of a
// table, because one that is in a busy region is slow and those behind it, which pass over what it has cleaned, are fast.
//
// It simulates workers in virtual time. Their scanners are those of package scanning, with the same pages, pauses, row locks, teleports and
// shares as in a worker; the table, the queue of a worker, and the time that requests and runs take are models. The course of a
// simulation depends on its [Config] alone.
package clumping
