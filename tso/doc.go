// Package tso is the timestamp oracle of Percolator (section 2.3 of the paper).
//
// Every transaction asks the oracle for a start timestamp and, when it commits, for a
// commit timestamp. The protocol needs one promise of it (docs/PROTOCOL.md, I1): a
// timestamp is greater than every timestamp that anybody received before it was asked
// for.
//
// # How the promise is kept
//
// A [Server] serves timestamps from memory, and only such as it has reserved in a
// durable [Store] before: the record in the store, a [State], carries a high-water
// mark, and nothing above the mark is served. A server that takes over starts above
// the mark, so that a crash skips timestamps and never repeats one (window.go).
//
// Reserved blocks make timestamps unique but not ordered: two servers with a block
// each would serve them in any order. So any number of servers may run, but one
// leads, by a lease in the same record (lease.go). All writes of the record are
// fenced: they name the exact record that they replace. The leader stops serving when
// its lease has ended by its own monotonic clock, counted from before it sent the
// write that got it; a successor waits for the lease, by its own monotonic clock,
// from when it last saw the record change. No two machines' clocks are compared.
//
// A [Client] keeps one request on the way, and callers that come meanwhile travel
// together in the next one. A timestamp given to a caller was therefore always asked
// for after the caller asked.
//
// # Records that are refused
//
// A server that started from a wrong record would hand timestamps out twice. It refuses
// to start, and says what it found, when the record cannot be decoded; when it does not
// agree with the witness that each write stores beside it, as after somebody has
// edited, deleted or restored a part ([ErrCorrupt]); when there is none although the
// oracle was initialized ([Initialize], [ServerConfig.RequireRecord], [ErrNoRecord]); and
// when its mark is below what is known to have been served ([ServerConfig.Served]). A
// server that runs stops when the record goes back. If a lost record goes unnoticed
// all the same, clients notice it: they say what they have received, and no server
// hands out less to them. The way back is [Raise].
//
// # The clock
//
// A [Timestamp] is close to the wall clock, and order does not depend on it: a server
// hands out the greater of the clock and its last timestamp + 1.
//
//   - A clock that stands still or goes back is waited for: timestamps go on from
//     the last one, one at a time. When the last one is more than a window ahead of the
//     clock, as after a clock was an hour fast and has been corrected, they advance
//     at half the speed of time, by the monotonic clock, until the wall clock has
//     caught up. Standing still for the hour would keep the lock of a crashed
//     transaction alive for as long, because the age of a lock is judged by the
//     oracle's time.
//   - A clock that jumps forward is followed at once. Its time lies beyond the
//     window, so the requests that come next wait for one write to the store and,
//     if it fails, get an error. A jump forward ages all locks: the transactions
//     that hold them may be rolled back by others and start again, and retention
//     runs out earlier. It costs work, never correctness (docs/PROTOCOL.md, I8,
//     I16).
//   - A change of leader jumps ahead by up to a window, as the rest of the old
//     window is skipped. It should stay well below the time that locks live.
//
// # Sessions, row locks and hints
//
// The leader also tells who lives and who scans what, so that nobody waits for the
// dead or does the work of others. Nothing of it is needed for correctness
// (docs/PROTOCOL.md, I8): wrong answers and none cost work.
//
//   - A [Session] is a lease of a process. The ids of open sessions are durable, if the
//     store is a [SessionStore], and written when a session begins and ends; what is
//     left of a lease is known to the leader only, whose monotonic clock counts it. A
//     new leader gives everybody a whole lease, so that nobody who renews is lost
//     with the old one. The owner counts its lease from before it asked, and so stops
//     believing in its session before anybody else does.
//   - Row locks ([RowLocks]) are in the leader's memory and nowhere else.
//   - So are hints ([Hints]), which tell workers at once where other processes have
//     made work. Unlike row locks they hold row keys; no log or metric shows them.
package tso
