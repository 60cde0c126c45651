"""Search by table: the accuracy of every cell is looked up."""
