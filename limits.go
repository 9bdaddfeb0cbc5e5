package sluice

// The limits of the domain. Each has its unit in its name; what exceeds one
// is refused or becomes a dead letter with the limit in its reason.
const (
	// MaxPartitions bounds how many slices the users of one deployment have.
	MaxPartitions = 256

	// MaxElementBytes bounds one item of input: a list element, one event of a
	// request. Larger ones are dead letters.
	MaxElementBytes = 1 << 20

	// MaxBatchBytes is where an open batch is closed. A single larger item (a
	// dead letter keeps its whole payload) still travels, alone in its batch.
	MaxBatchBytes = 256 << 10

	// MaxBatchItems is where an open batch is closed, whatever its size.
	MaxBatchItems = 4096

	// MaxNestingLevels bounds how deep the JSON of one item may nest.
	MaxNestingLevels = 64

	// MaxNameBytes bounds an event's name.
	MaxNameBytes = 255

	// MaxEventIDBytes, MaxAppIDBytes, MaxEmailBytes and MaxReferenceBytes bound
	// the other texts of an event. RFC 5321, 4.5.3.1.3 gives a path 256 octets
	// with its angle brackets, hence 254 for an address.
	MaxEventIDBytes   = 128
	MaxAppIDBytes     = 64
	MaxEmailBytes     = 254
	MaxReferenceBytes = 128

	// MaxMessageBytes bounds a message with its attachments, as it goes out.
	MaxMessageBytes = 25 << 20

	// MaxRecipients bounds the recipients of one message: what a server has to
	// take at least is 100 (RFC 5321, 4.5.3.1.8).
	MaxRecipients = 1000

	// MinEventTimeMillis and MaxEventTimeMillis bound an event's time: the years
	// 1970 to 9999, what a DATETIME column and RFC 3339 can both say.
	MinEventTimeMillis = 0
	MaxEventTimeMillis = 253402300799999
)
