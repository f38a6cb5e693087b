package tso

// What the tests of stores in other packages share with those of this one.
var (
	Conformance        = conformance
	ConformanceOfStart = conformanceOfStart
	ConformanceOfNames = conformanceOfNames
	SessionConformance = sessionConformance
	Failover           = failover
	LoseAnswers        = loseAnswers
	First              = first
	Successor          = State.successor
	Stored             = stored
	DamagedStart       = damagedStart
	RefusesDamage      = refusesDamage
)
