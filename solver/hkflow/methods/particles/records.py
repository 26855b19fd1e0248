"""What clouds of particles record."""

from ..record import Record

RECORDS = (Record("particles", "particles", "Number of particles."),)
