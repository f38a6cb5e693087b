// Package planted names mistakes that the protocol could make. Built with the tag plantedbugs, one of them at a time can be
// switched on, to show that the checks of histories and tables find it; without the tag On is the constant false, and the
// compiler leaves the mistakes out.
package planted

// Bug is one mistake.
type Bug string

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
