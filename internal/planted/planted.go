// Package planted names mistakes that the protocol could make. Built with the tag plantedbugs, one of them at a time can be
// switched on, to show that the checks of histories and tables find it; without the tag On is the constant false, and the
// compiler leaves the mistakes out.
package planted

// Bug is one mistake.
type Bug string

// The mistakes, each with the invariant of docs/PROTOCOL.md that it breaks.
const (
	NoRollbackMarker           Bug = "no rollback marker"                          // I4
	RollBackWithoutPrimary     Bug = "roll back without asking the primary"        // I8
	CommitTimestampEarly       Bug = "commit timestamp before prewrite"            // I5
	PrewriteIgnoresNewerWrites Bug = "prewrite ignores newer writes"               // I2
	SecondariesFirst           Bug = "secondaries before the primary"              // I7
	UnconditionalRollBack      Bug = "secondary rolled back without condition"     // I9
	ReadIgnoresLocks           Bug = "read passes locks"                           // I15
	RollForwardWithoutNotify   Bug = "roll forward without the notification"       // I10
	NotifyErasedUnbounded      Bug = "notification erased beyond the run"          // I13
	NoAcknowledgment           Bug = "run without acknowledgment"                  // I12
	CollectorSkipsLocks        Bug = "collector does not resolve locks"            // I16
	CollectorSkipsDrain        Bug = "collector does not drain"                    // I16
	LateReadAccepted           Bug = "read below the safepoint answered"           // I16
	UnknownIsAbort             Bug = "unknown outcome of a commit taken for abort" // I17
)

// All lists the mistakes.
func All() []Bug {
	return []Bug{
		NoRollbackMarker, RollBackWithoutPrimary, CommitTimestampEarly, PrewriteIgnoresNewerWrites, SecondariesFirst,
		UnconditionalRollBack, ReadIgnoresLocks, RollForwardWithoutNotify, NotifyErasedUnbounded, NoAcknowledgment,
		CollectorSkipsLocks, CollectorSkipsDrain, LateReadAccepted, UnknownIsAbort,
	}
}

// The mistakes that the timestamp oracle could make. All of them break I1.
const (
	ServeBeforeStored    Bug = "timestamps served before their window is stored"
	SuccessorDoesNotWait Bug = "successor does not wait for the old lease"
	ServeAfterLease      Bug = "former leader serves after its lease"
	StartBelowMark       Bug = "successor starts a window below the mark"
	LateCallerJoins      Bug = "timestamp of a request under way given to a later caller"
	UnfencedWrite        Bug = "record written without regard to the old one"
)

// Oracle lists the mistakes of the timestamp oracle.
func Oracle() []Bug {
	return []Bug{ServeBeforeStored, SuccessorDoesNotWait, ServeAfterLease, StartBelowMark, LateCallerJoins, UnfencedWrite}
}
