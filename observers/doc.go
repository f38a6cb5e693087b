// Package observers runs code when cells change: section 2.4 of the paper.
//
// A schema names columns whose writes notify. A program registers an observer for each of them and runs a [Worker].
// Whenever a transaction has written such a cell, some worker calls the observer with a transaction of its own; what the
// observer writes may notify other observers, so that a computation is a chain of small steps, each of them a transaction.
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
//   - At most one run of an observer commits for each change of an observed cell (docs/PROTOCOL.md, I12). The run and its
//     acknowledgment are one transaction: if it did not commit, it had no effect and the observer is called again.
//   - Every change is run for eventually, also if the writer or a worker dies at any moment, as long as some worker runs
//     and the observer does not fail for good.
//   - Several changes of a cell may be answered by one run, which then sees the newest ("message collapsing"). A change
//     that comes during a run is run for afterwards (I13).
//   - An observer runs in a transaction later than the one that notified it. It cannot keep an invariant together with that
//     one: whatever must hold at every instant belongs into the transaction that writes.
//
// Effects outside of the transaction (requests to other systems, counters in memory) happen once for every attempt, not
// once for every change.
//
// A weak column can only be notified ([percolator.Txn.Notify]), never written, and never conflicts. It has no
// acknowledgment: its observers run at least once after each notification, sometimes more than once.
//
// # All workers take the same observers
//
// A notification is erased when every observer of the column has acknowledged it, and it is the worker that knows which
// observers those are. Workers that take the same column must therefore register the same observers for it, by name.
//
// # Failures
//
// A run that fails, panics, conflicts or takes longer than its [Timeout] is repeated with growing, jittered pauses. After
// Config.MaxAttempts the cell is parked for that observer: this worker leaves it alone and lists it ([Worker.Parked])
// until the cell is notified again. Other cells, and other observers of the cell, are not held up.
//
// An observer that cannot do its work yet returns [Snooze]: it is called again later, and that counts as no failure.
//
// # Contention
//
// Observers that write the same cell conflict, and all but one have to run again. A worker notices and has fewer runs of such
// an observer under way at once, down to one, so that a hot cell costs time and not attempts. If that is too slow, notify the
// hot cell weakly instead, and let an observer of the weak column do the work once for many notifications.
//
// # What an idle worker costs
//
// While nothing is dirty a scanner searches every 1.5 to 2.5 s (unless Config.ScanInterval says otherwise), with at most two
// requests that read rows for each observed table; their filter passes over everything but notifications and locks. That is at
// most 80 requests a minute for each scanner and table, 60 on average, and one for the boundaries of the table's tablets. The
// oracle is not asked.
//
// # Limits
//
// A worker uses Config.Concurrency + Config.Scanners goroutines, and up to 8 more for each scanner that settles stranded
// locks. It knows at most Config.QueueLength dispatched cells, as many that wait for another attempt or to be joined, 8 found by the scan for
// each run that may be under way (at least 1,024), and 10,000 parked ones: about 0.3 KB each, the row key, and for parked ones
// the error. What does not fit is dropped: the notification in the table remains and the scan finds it later.
package observers
