// Package observers runs code when cells change: section 2.4 of the paper.
//
// A schema names columns whose writes notify. A program registers an observer for each of them and
// runs a [Worker]. Whenever a transaction has written such a cell, some worker calls the observer
// with a transaction of its own; what the observer writes may notify other observers, so that a
// computation is a chain of small steps, each of them a transaction.
//
//	r := observers.NewRegistry()
//	r.Observe("indexer", "documents", "contents", func(ctx context.Context, tx *percolator.Txn, ch observers.Change) error {
//		return tx.Set(percolator.Cell{Table: "documents", Row: ch.Cell.Row, Column: "words"}, count(ch.Value))
//	})
//	w, err := observers.NewWorker(client, r, observers.Config{})
//	err = w.Run(ctx) // until ctx ends
//
// # What is guaranteed
//
//   - At most one run of an observer commits for each change of an observed cell (docs/PROTOCOL.md,
//     I12). The run and its acknowledgment are one transaction: if it did not commit, it had no
//     effect and the observer is called again.
//   - Every change is run for eventually, also if the writer or a worker dies at any moment, as
//     long as some worker runs and the observer does not fail for good.
//   - Several changes of a cell may be answered by one run, which then sees the newest ("message
//     collapsing"). A change that comes during a run is run for afterwards (I13).
//   - An observer runs in a transaction later than the one that notified it. It cannot keep an
//     invariant together with that one: whatever must hold at every instant belongs into the
//     transaction that writes.
//
// Effects outside of the transaction (requests to other systems, counters in memory) happen once
// for every attempt, not once for every change.
//
// A weak column can only be notified ([percolator.Txn.Notify]), never written, and never conflicts.
// It has no acknowledgment: its observers run at least once after each notification, sometimes more
// than once.
//
// # All workers take the same observers
//
// A notification is erased when every observer of the column has acknowledged it, and it is the
// worker that knows which observers those are. Workers that take the same column must therefore
// register the same observers for it, by name.
//
// # Failures
//
// A run that fails, panics, conflicts or takes longer than its [Timeout] is repeated with growing,
// jittered pauses. After Config.MaxAttempts the cell is parked for that observer: the row says so,
// and workers leave it alone (but for one that hears late of the old notification: it makes one
// round of attempts more) until the cell is notified anew, or somebody calls [Retry] or [Drop]
// ("percolator notify" on the command line). [ListParked] tells what is parked and why. The
// notification stays in the table, so a worker that dies while it parks loses nothing
// (docs/PROTOCOL.md, I19). Other cells are not held up, nor are other observers of the cell but for
// the time of a run: the observers of one cell run one after the other on a worker.
//
// An observer that cannot do its work yet returns [Snooze]: it is called again later, and that
// counts as no failure.
//
// # Adding and removing observers
//
// An observer that is added runs for what is notified from then on;
// percolator.Client.BackfillObserver notifies the cells that existed before. The acknowledgments of
// an observer that was removed are deleted by percolator.Client.ForgetObserver. A worker whose
// registry does not cover the observed columns of the schema is refused, unless Config.Columns says
// which it takes.
//
// # Contention
//
// Observers that write the same cell conflict, and all but one have to run again. A worker notices
// and has fewer runs of such an observer under way at once, down to one, so that a hot cell costs
// time and not attempts. If that is too slow, notify the hot cell weakly instead, and let an
// observer of the weak column do the work once for many notifications.
//
// # How soon an observer runs
//
// What this process's own client writes is dispatched at once. What a client of another process
// writes is hinted at: that client tells the oracle, if nobody in its process takes the
// notification up, and the oracle tells one worker that asks (tso.Hints;
// percolator.Config.DisableHints turns it off). Both are milliseconds. What gets lost on these ways
// – a process that dies, an oracle that changes its leader, too much at once – is found by the
// scan, within seconds on a table that takes less to pass.
//
// # Who searches what
//
// A scanner begins in a random tablet at a random key. It locks the rows that it finds, with the
// oracle if that keeps row locks, until their runs have ended; where it meets another scanner's, it
// goes elsewhere (section 2.4 of the paper).
//
// With Config.Partition the workers that set it and take the same columns divide each table: each
// searches its part, and everything in every sixteenth pass. While members come and go, parts
// overlap or leave gaps for a moment; a dead worker's part is taken over when its session or lease
// (30 s) has ended and the others have looked, within 10 s. Nothing correct depends on it. Fewer
// rows are read twice, and a part whose worker is slow waits longer: docs/BENCHMARKS.md.
//
// # What an idle worker costs
//
// While nothing is dirty a scanner searches every 1.5 to 2.5 s (unless Config.ScanInterval says
// otherwise), with at most two requests that read rows for each observed table; their filter passes
// over everything but notifications and locks. That is at most 80 requests a minute for each
// scanner and table, 60 on average, and one for the boundaries of the table's tablets. The oracle
// is asked three times a minute by each worker: for hints at what other processes have written, a
// question that it keeps open for 20 s. Config.Partition adds six looks a minute at who is there:
// one read, one timestamp, and one question to an oracle that keeps sessions; and a write every 100
// s or so with sessions, at most six a minute without.
//
// # Limits
//
// A worker uses Config.Concurrency + Config.Scanners + 1 goroutines, and up to 8 more for each
// scanner that settles stranded locks. It knows at most Config.QueueLength dispatched cells, as
// many that wait for another attempt or to be joined, 8 found by the scan for each run that may be
// under way (at least 1,024): about 0.3 KB each and the row key. What does not fit is dropped: the
// notification in the table remains and the scan finds it later. It remembers up to 8,192 cells
// that are done, and as many with a parked observer. A parked observer takes up to 1 KiB in its
// row, and a little of each scan. It keeps rows locked against others as long as a page is in the
// hands of a scanner, or a cell waits for its first attempt or runs, but no longer than 20 s.
package observers
