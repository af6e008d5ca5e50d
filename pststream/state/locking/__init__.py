"""Locks of a home: file locks in a local folder, leases with fencing tokens in other storages."""
