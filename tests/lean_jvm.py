"""Options of JVMs that tests start: one compiler and the serial collector, which take the least CPU time."""

LEAN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The value of JAVA_TOOL_OPTIONS, which every JVM reads."""
