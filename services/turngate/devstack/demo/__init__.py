"""The demonstration: a scripted run of a whole fleet under faults, told as it happens and audited at its end."""
