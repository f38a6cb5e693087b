package history

import "github.com/gopercolator/percolator/tso"

// verdict is how far a transaction has been judged.
type verdict struct {
	included  bool          // in the window
	committed bool          // acknowledged, or found to be
	at        tso.Timestamp // commit timestamp of a committed writer
	noted     bool          // what it read has been taken note of
	judged    bool          // what it read has been compared
	judgedOps int
	settled   bool   // what it wrote has been compared, or it did not commit
	settledIn int    // number of the window
	forgotten bool   // all but the newest versions
	floor     *known // what was acknowledged before it began, once that is forgotten

	diedBy  int64         // an unknown one had ended before this moment
	ceiling tso.Timestamp // and, if it committed, then below this
	unseen  bool          // read of its cells say that it did not commit
	passes  map[cellID][]pass

	changed []effect // see effects
	length  int      // of ops, when that was made
}

// unplaced tells whether the transaction is known to be committed, and not when.
func (t *Txn) unplaced() bool {
	return t.committed && !t.settled && t.start != 0 && t.at == 0 && len(t.effects()) > 0
}

// fresh tells whether anything of the transaction is judged for the first time.
func (t *Txn) fresh() bool { return !t.judged || !t.settled }

// unknown tells whether an outcome is to be decided still.
func (t *Txn) unknown() bool { return t.outcome == Unknown && !t.committed && !t.settled }
