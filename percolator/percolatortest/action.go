package percolatortest

// Action is what happens to a request: an [Effect], or one of a [Hold]'s.
type Action interface{ action() }

// Effect is an action that needs no further word from the test.
type Effect int

// What can happen to a request. A lost request or answer shows to the client at once, as the code
// Unavailable, or, of the oracle, as tso.ErrUnavailable.
const (
	// Pass delivers the request and its answer.
	Pass Effect = iota
	// LoseRequest never delivers the request.
	LoseRequest
	// LoseAnswer delivers the request and loses the answer.
	LoseAnswer
	// Duplicate delivers the request twice, the second time after the first was answered. The
	// client gets the first answer.
	Duplicate
	// Crash kills the client: neither this request nor any later one is delivered; they end with an
	// error at once. Those that were sent before may still arrive, and those that are held can
	// still be released.
	Crash
	// CrashAfter delivers the request, and kills the client before the answer arrives.
	CrashAfter
)

func (Effect) action() {}

// Refuse is the action that answers with err, a status error of gRPC, in place of the server.
func Refuse(err error) Action { return refusal{err} }

// AnswerWith is the action that delivers the request, and answers with err, a status error of gRPC,
// in place of what the server says.
func AnswerWith(err error) Action { return replaced{err} }

type (
	refusal  struct{ err error }
	replaced struct{ err error }
)

func (refusal) action()  {}
func (replaced) action() {}

func (e Effect) String() string {
	names := [...]string{
		Pass: "pass", LoseRequest: "lose the request", LoseAnswer: "lose the answer", Duplicate: "duplicate", Crash: "crash", CrashAfter: "crash after",
	}
	if e < 0 || int(e) >= len(names) {
		return "unknown effect"
	}
	return names[e]
}
